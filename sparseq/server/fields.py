"""Fields that clients may send, each with a type and a range, in one place.

Every protocol with JSON or a query string declares its fields as `InputFields`; a handler gets the
parsed values, never the text. So a number is finite and in its range, a text is valid UTF-8, and a
field is given once; other input raises a `ParameterError` with the reason.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.question.plan import OPTIONS, Option

MOST_DEPTH = 64
"""The maximum depth of lists and objects in JSON."""
MOST_DIGITS = 300
"""The maximum number of characters of a number."""
MOST_VALUES = 10_000
"""The maximum number of a query's parameters."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_SHOWN = 40  # characters of a wrong value in a message


class InputType(enum.StrEnum):
    """Types of fields."""

    TEXT = "text"
    WHOLE = "a whole number"
    NUMBER = "a number"
    FLAG = "true or false"
    VALUES = "a list of values, or an object of them by name"


@dataclass(frozen=True)
class InputField:
    """One field.

    Attributes:
        kind: The type.
        least, most: The range of a number, or of a text's length.
        default: The value of a missing field.
        needed: True if it is required.
        choices: Allowed texts; none: any.
        about: Its purpose, for the description.
        over: True if a number must be greater than `least`.
    """

    kind: InputType
    least: float = -math.inf
    most: float = math.inf
    default: Any = None
    needed: bool = False
    choices: tuple[str, ...] = ()
    about: str = ""
    over: bool = False

    def read(self, name: str, value: Any) -> Any:
        """Return a value of JSON, converted for a handler.

        Raises:
            ParameterError: It has another type, or is out of its range.

        >>> InputField(InputType.WHOLE, 1, 9).read("last", 3)
        3
        """
        match self.kind:
            case InputType.TEXT if isinstance(value, str):
                return self._text(name, value)
            case InputType.FLAG if isinstance(value, bool):
                return value
            case InputType.VALUES if isinstance(value, list | dict):
                return _values(name, value)
            case InputType.WHOLE if isinstance(value, int) and not isinstance(value, bool):
                return self._number(name, value)
            case InputType.NUMBER if isinstance(value, int | float) and not isinstance(value, bool):
                return self._number(name, _finite(name, value))
        raise self._wrong(name, value)

    def read_text(self, name: str, text: str) -> Any:
        """Return a value of a query string or a form; raise errors as `read` does.

        >>> InputField(InputType.WHOLE, 1, 9).read_text("last", "3")
        3
        """
        if self.kind is InputType.WHOLE and _WHOLE.fullmatch(text):
            return self._number(name, int(text))
        if self.kind is InputType.NUMBER and _NUMBER.fullmatch(text):
            return self._number(name, _finite(name, float(text)))
        if self.kind is InputType.FLAG and text in ("0", "1", "false", "true"):
            return text in ("1", "true")
        if self.kind is InputType.TEXT:
            return self._text(name, text)
        raise self._wrong(name, text)

    def schema(self) -> dict[str, Any]:
        """Return the field as JSON schema."""
        types: dict[InputType, Any] = {
            InputType.TEXT: "string",
            InputType.WHOLE: "integer",
            InputType.NUMBER: "number",
            InputType.FLAG: "boolean",
            InputType.VALUES: ["array", "object"],
        }
        found: dict[str, Any] = {"type": types[self.kind]}
        number = self.kind in (InputType.WHOLE, InputType.NUMBER)
        low, high = ("minimum", "maximum") if number else ("minLength", "maxLength")
        if math.isfinite(self.least):
            found["exclusiveMinimum" if self.over else low] = self.least
        if math.isfinite(self.most):
            found[high] = self.most
        if self.choices:
            found["enum"] = list(self.choices)
        if self.about:
            found["description"] = self.about
        return found

    def _number(self, name: str, value: float) -> float:
        if not self.least <= value <= self.most or (self.over and value == self.least):
            raise self._wrong(name, value)
        return value

    def _text(self, name: str, value: str) -> str:
        if not self.least <= len(value) <= self.most or (
            self.choices and value not in self.choices
        ):
            raise self._wrong(name, value)
        return _writable(name, value)

    def _wrong(self, name: str, value: Any) -> ParameterError:
        return ParameterError(f"{name} is {_shown(value)}", f"it is {self.range_text()}")

    def range_text(self) -> str:
        """Return the allowed values as text."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        ends = []
        if math.isfinite(self.least) and self.least:
            ends.append(f"{'above' if self.over else 'from'} {self.least:,.10g}")
        elif math.isfinite(self.least):
            ends.append("above 0" if self.over else "from 0")
        if math.isfinite(self.most):
            ends.append(f"to {self.most:,.10g}")
        unit = " letters" if self.kind is InputType.TEXT and ends else ""
        return " ".join([str(self.kind), *ends]) + unit


NUMBER = InputField(InputType.WHOLE, 0, 10**15, needed=True)
"""The number of an answer."""
InputFields = Mapping[str, InputField]


def _of_option(one: Option) -> InputField:
    if one.is_flag:
        return InputField(InputType.FLAG, default=False, about=one.about)
    if one.choices:
        return InputField(InputType.TEXT, choices=one.choices, about=one.about)
    return InputField(InputType.NUMBER, 0, over=True, about=one.about)


OPTION_FIELDS = {name: _of_option(one) for name, one in OPTIONS.items()}
"""The options of a question (`sparseq.question.plan.Options`) as fields."""


def object_schema(fields: InputFields) -> dict[str, Any]:
    """Return the JSON schema of an object with these fields, and no others."""
    return {
        "type": "object",
        "properties": {name: field.schema() for name, field in fields.items()},
        "required": [name for name, field in fields.items() if field.needed],
        "additionalProperties": False,
    }


def read_json(data: bytes | str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ParameterError: It is no valid JSON; it has NaN or Infinity, a repeated key, a number that
            is too long, or too deep lists.

    >>> read_json(b'{"sql": "SELECT 1"}')
    {'sql': 'SELECT 1'}
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        found = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_number,
            parse_int=lambda digits: int(_short(digits)),
            parse_float=lambda digits: _finite("a number", float(_short(digits))),
        )
        _check_depth(found)
    except ParameterError:
        raise
    except (ValueError, RecursionError):
        raise ParameterError("this is not JSON", 'for example {"sql": "SELECT …"}') from None
    return found


def read_object(fields: InputFields, given: Any) -> dict[str, Any]:
    """Return the fields of a JSON object; missing ones have their defaults.

    Null counts as missing.

    Raises:
        ParameterError: It is no object, or one of its fields is wrong.
    """
    if not isinstance(given, dict):
        raise ParameterError("this is not a JSON object", 'for example {"sql": "SELECT …"}')
    _check_known(fields, given)
    return {
        name: _default(name, field)
        if (value := given.get(name)) is None
        else field.read(name, value)
        for name, field in fields.items()
    }


def read_texts(fields: InputFields, given: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the fields of names and texts: of a query string, a form, a path.

    An empty text counts as missing.

    Raises:
        ParameterError: A field is wrong.
    """
    texts = _object(given)
    _check_known(fields, texts)
    return {
        name: field.read_text(name, text)
        if (text := texts.get(name, ""))
        else _default(name, field)
        for name, field in fields.items()
    }


def pairs(text: str | bytes) -> list[tuple[str, str]]:
    """Return the names and texts of a query string, or a form.

    Raises:
        ParameterError: It is invalid, or not UTF-8.
    """
    try:
        written = text.decode("ascii") if isinstance(text, bytes) else text
        return parse_qsl(written, keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError:
        raise ParameterError("the fields can't be read", "20 at most, as name=value&…") from None


def _check_known(fields: InputFields, given: Iterable[str]) -> None:
    for name in given:
        if name not in fields:
            hint = did_you_mean(name[:_SHOWN], fields) or f"it takes {', '.join(fields) or 'none'}"
            raise ParameterError(f"there is no field {_shown(name)}", hint)


def _default(name: str, field: InputField) -> Any:
    if field.needed:
        raise ParameterError(f"{name} is missing", field.about or f"it is {field.range_text()}")
    return field.default


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ParameterError(f"{_shown(name)} is given twice", "give it once")
        found[name] = value
    return found


def _no_number(word: str) -> Any:
    raise ParameterError(f"{word} is not a number in JSON", "give a finite number")


def _short(digits: str) -> str:
    if len(digits) > MOST_DIGITS:
        raise ParameterError(f"a number has {len(digits):,} digits", f"{MOST_DIGITS} at most")
    return digits


def _finite(name: str, value: float) -> float:
    """Return a number as a finite float."""
    try:
        if math.isfinite(found := float(value)):
            return found
    except OverflowError:
        pass
    raise ParameterError(f"{name} is too large", "give a finite number")


def _writable(name: str, text: str) -> str:
    """Return a text that is valid UTF-8, without NUL."""
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text if c > "\ud7ff"):
        raise ParameterError(f"{name} has characters that no text can have", "send UTF-8")
    return text


def _values(name: str, given: list[Any] | dict[str, Any]) -> list[Any] | dict[str, Any]:
    if len(given) > MOST_VALUES:
        raise ParameterError(f"{name} has {len(given):,} values", f"{MOST_VALUES:,} at most")
    for value in given.values() if isinstance(given, dict) else given:
        if isinstance(value, list | dict):
            raise ParameterError(
                f"{name} has a list in it", ("each must be a text, a number or null")
            )
        if isinstance(value, str):
            _writable(name, value)
    for key in given if isinstance(given, dict) else ():
        _writable(name, key)
    return given


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise ParameterError("the JSON has too many lists in lists", f"{MOST_DEPTH} at most")


def _shown(value: Any) -> str:
    """Return a short form of a given value; invalid characters are escaped."""
    try:
        text = repr(value[:_SHOWN] if isinstance(value, str) else value)
    except (ValueError, RecursionError):
        text = "too long"
    return text[: 2 * _SHOWN]
