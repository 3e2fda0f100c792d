"""Settings of SET, RESET and SHOW: those of PostgreSQL that clients use, and our own.

`SET sparseq.precision = '2%'` and similar settings are the options of `sparseq sql`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from sparseq.base.errors import did_you_mean
from sparseq.pgwire.wire_errors import INVALID_PARAMETER, WireError
from sparseq.question.plan import KNOWN_OPTIONS, OPTIONS, Options

VERSION = "15.8"
_FIXED = {
    "server_version": VERSION,
    "server_version_num": "150008",
    "server_encoding": "UTF8",
    "is_superuser": "off",
    "integer_datetimes": "on",
    "in_hot_standby": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "transaction_read_only": "on",
    "block_size": "8192",
}
_FREE = {
    "application_name": "",
    "backslash_quote": "safe_encoding",
    "bytea_output": "hex",
    "client_min_messages": "notice",
    "default_table_access_method": "heap",
    "default_tablespace": "",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "off",
    "escape_string_warning": "on",
    "extra_float_digits": "1",
    "geqo": "on",
    "idle_in_transaction_session_timeout": "0",
    "intervalstyle": "postgres",
    "jit": "off",
    "ksqo": "off",
    "lock_timeout": "0",
    "plan_cache_mode": "auto",
    "row_security": "on",
    "search_path": '"$user", public',
    "standard_conforming_strings": "on",
    "synchronize_seqscans": "on",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_deferrable": "off",
    "work_mem": "4MB",
}
_REPORTED = {
    "application_name": "application_name",
    "client_encoding": "client_encoding",
    "datestyle": "DateStyle",
    "timezone": "TimeZone",
    "intervalstyle": "IntervalStyle",
    "default_transaction_read_only": "default_transaction_read_only",
    "in_hot_standby": "in_hot_standby",
    "integer_datetimes": "integer_datetimes",
    "is_superuser": "is_superuser",
    "server_encoding": "server_encoding",
    "server_version": "server_version",
    "session_authorization": "session_authorization",
    "standard_conforming_strings": "standard_conforming_strings",
}
_SPELLED = _REPORTED | {"lc_collate": "lc_collate"}
REQUEST_ID, FRESH = "sparseq.request_id", "sparseq.fresh"
_WORDS = {name: one.choices or ("on", "off") for name, one in OPTIONS.items() if not one.is_number}
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6, "d": 8.64e7}


class Settings:
    """The settings of one session. Settings of a transaction are undone if the transaction fails.

    Attributes:
        changed: The names of settings that were set since the last call of `news`.
        version: Increases with every change.

    Example:
        >>> settings = Settings("ada")
        >>> settings.set("sparseq.precision", "2%")
        >>> settings.options().precision, settings.show("TimeZone")
        (0.02, ('TimeZone', 'UTC'))
    """

    def __init__(self, user: str) -> None:
        self._defaults = _FREE | {
            "client_encoding": "UTF8",
            "datestyle": "ISO, MDY",
            "session_authorization": user,
            "role": "none",
            "statement_timeout": "0",
        }
        self._values = dict(self._defaults)
        self._before: dict[str, str] | None = None
        self._local: dict[str, str | None] = {}
        self.changed: list[str] = []
        self.version = 0

    def start_with(self, values: dict[str, str]) -> None:
        """Set the values from the client's start-up packet, to which RESET returns."""
        for name, value in values.items():
            self.set(name, value)
        self._defaults |= self._values
        self.changed.clear()

    def set(self, name: str, value: str, local: bool = False) -> None:
        """Set a value; `local`: until the transaction ends.

        Raises:
            WireError: The setting does not exist, or can't have this value.
        """
        key = _key(name)
        value = self._check(key, name, value)
        if local:
            self._local.setdefault(key, self._values.get(key))
        self._put(key, value)

    def reset(self, name: str) -> None:
        """Reset a setting to its value at the connection's start; ALL: all settings."""
        if name.upper() == "ALL":
            for key in list(self._values):
                self._put(key, self._defaults.get(key))
            return
        key = _key(name)
        if key not in self._values and key not in self._defaults and "." not in key:
            self._check(key, name, "")
        self._put(key, self._defaults.get(key))

    def show(self, name: str) -> tuple[str, str]:
        """Return a setting's name in its spelling, and its value.

        Raises:
            WireError: The setting does not exist.
        """
        key = _key(name)
        value = _FIXED.get(key, self._values.get(key))
        if (
            value is None
            and key.startswith("sparseq.")
            and key[8:] in (*KNOWN_OPTIONS, "request_id")
        ):
            value = ""
        if value is None and key == FRESH:
            value = "off"
        if value is None:
            raise _unknown(name)
        return _SPELLED.get(key, key), value

    def all(self) -> dict[str, str]:
        """Return all settings and their values."""
        return dict(sorted((_FIXED | self._values).items()))

    def reported(self) -> list[tuple[str, str]]:
        """Return the settings that are reported to clients at the start."""
        return [(spelled, self.show(key)[1]) for key, spelled in _REPORTED.items()]

    def news(self) -> list[tuple[str, str]]:
        """Return the settings that must be reported since the last call."""
        changed, self.changed = dict.fromkeys(self.changed), []
        return [(_REPORTED[key], self._values[key]) for key in changed if key in _REPORTED]

    def begin(self) -> None:
        """Begin a transaction."""
        self._before = dict(self._values)

    def end(self, committed: bool) -> None:
        """End a transaction: local settings are undone, and after a failure all settings."""
        before, local = self._before, self._local
        self._before, self._local = None, {}
        if not committed and before is not None:
            for key in [*self._values]:
                self._put(key, before.get(key))
            return
        for key, value in local.items():
            self._put(key, value)

    def options(self) -> Options:
        """Return the settings of noise and confidence.

        Raises:
            ParameterError: They contradict each other.
        """
        given: dict[str, Any] = {}
        for name, one in OPTIONS.items():
            if value := self._values.get(f"sparseq.{name}", ""):
                given[name] = _number(name, value) if one.is_number else value
                if one.is_flag:
                    given[name] = value == "on"
        return Options(**given)

    @property
    def request_id(self) -> str:
        """Return the id of the next question; it is used once."""
        return self._values.pop(REQUEST_ID, "")

    @property
    def fresh(self) -> bool:
        """True to ask again, and pay, even if an answer is recorded."""
        return self._values.get(FRESH, "off") == "on"

    @property
    def timeout(self) -> float | None:
        """Seconds that a statement may take; None: no limit."""
        return _milliseconds(self._values["statement_timeout"]) / 1000 or None

    def _put(self, key: str, value: str | None) -> None:
        self.version += 1
        if value is None:
            self._values.pop(key, None)
        elif self._values.get(key) != value:
            self._values[key] = value
            self.changed.append(key)

    def _check(self, key: str, name: str, value: str) -> str:
        if key in _FIXED:
            raise WireError("55P02", f'parameter "{name}" cannot be changed')
        if key in _CHECKS:
            return _CHECKS[key](value)
        if key.startswith("sparseq."):
            words = _WORDS.get(key[8:])
            if words is not None:
                return _word(name, value, words)
            if key != REQUEST_ID and key[8:] not in KNOWN_OPTIONS:
                hint = did_you_mean(key[8:], [*KNOWN_OPTIONS, *_WORDS, "request_id", "fresh"])
                raise WireError("42704", f'unrecognized configuration parameter "{name}"', hint)
            if key != REQUEST_ID and value:
                _number(key[8:], value)
            return value
        if key not in self._defaults and "." not in key:
            raise _unknown(name)
        return value


def _key(name: str) -> str:
    return "timezone" if name.lower() == "time zone" else name.lower()


def _unknown(name: str) -> WireError:
    return WireError("42704", f'unrecognized configuration parameter "{name}"')


def _word(name: str, value: str, words: Sequence[str]) -> str:
    word = value.strip().lower()
    if word not in ("", *words):
        told = f'{name} is "{value}"; it is {" or ".join(words)}'
        raise WireError(INVALID_PARAMETER, told, f"RESET {name} for the default")
    return word


def _number(name: str, value: str) -> float:
    text = value.strip()
    share = text.endswith("%") and OPTIONS[name].share
    try:
        return float(text.removesuffix("%")) / 100 if share else float(text)
    except ValueError:
        raise WireError(
            INVALID_PARAMETER,
            f'sparseq.{name} is "{value}"; it must be a number',
            f"SET sparseq.{name} = '2%', or a plain number; RESET sparseq.{name} for the default",
        ) from None


def _milliseconds(value: str) -> float:
    match = re.fullmatch(r"\s*(\d{1,10}(?:\.\d{1,6})?)\s*(us|ms|s|min|h|d|)\s*", value)
    if match is None:
        raise WireError(
            INVALID_PARAMETER,
            f'invalid value for parameter "statement_timeout": "{value}"',
            "valid units are us, ms, s, min, h and d",
        )
    return float(match[1]) * _UNITS[match[2] or "ms"]


def _timeout(value: str) -> str:
    milliseconds = _milliseconds(value)
    return f"{milliseconds:.0f}ms" if milliseconds else "0"


def _encode(value: str) -> str:
    if value.strip("'\"").upper().replace("-", "") not in ("UTF8", "UNICODE", "DEFAULT"):
        problem = f'invalid value for parameter "client_encoding": "{value}"'
        raise WireError(INVALID_PARAMETER, problem, "texts are UTF8 here")
    return "UTF8"


def _date_style(value: str) -> str:
    words = {word.strip().upper() for word in value.split(",")}
    if not words <= {"ISO", "MDY", "DMY", "YMD", "US", "EUROPEAN", "DEFAULT"}:
        problem = f'invalid value for parameter "DateStyle": "{value}"'
        raise WireError(INVALID_PARAMETER, problem, "dates are written ISO here")
    order = next((word for word in ("DMY", "YMD") if word in words), "MDY")
    return f"ISO, {order}"


def _on(value: str) -> str:
    if value.lower() not in ("on", "true", "1", "yes", "default"):
        raise WireError("25006", "cannot set transaction read-write mode: the server is read-only")
    return "on"


def _switch(value: str) -> str:
    if value.lower() not in _SWITCH:
        problem = f'sparseq.fresh is "{value}"; it must be on or off'
        raise WireError(INVALID_PARAMETER, problem)
    return _SWITCH[value.lower()]


_SWITCH = {"on": "on", "true": "on", "1": "on", "off": "off", "false": "off", "0": "off"}
_CHECKS: dict[str, Callable[[str], str]] = {
    FRESH: _switch,
    "statement_timeout": _timeout,
    "client_encoding": _encode,
    "datestyle": _date_style,
    "default_transaction_read_only": lambda value: "on",
    "standard_conforming_strings": _on,
}
