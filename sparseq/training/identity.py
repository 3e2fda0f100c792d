"""The identity of a training run: all facts that its result depends on, under one name.

A run is found by its name, and its recorded steps are read from the journal, free. So no name may
be used for two runs, and the facts that the run depends on are written with its first release: the
settings, the start, the table with the encoding of its columns (including declared bounds and
keys), and the code of the model and of its loss. All these facts are public. A run of the same name
with other facts is refused, and the error lists the differences. The history's texts have a digest
of the same facts, so that another run cannot read a step back even if the record is missing.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparseq.base.errors import QueryRefused
from sparseq.ledger.notes import Fact
from sparseq.store.store import Store
from sparseq.training.query import step_request

Facts = dict[str, str]
FIRST = ("people", "1")
"""First questions of a run: the second alone, or both."""
_LONGEST = 60  # characters of a fact in an error


@dataclass(frozen=True)
class Identity:
    """The facts that a run depends on, by name: public.

    Example:
        >>> a, b = Identity("r", {"table": "a"}), Identity("r", {"table": "b"})
        >>> a.differences(b.facts)
        ['table b, not a']
    """

    run: str
    facts: Mapping[str, str]

    @property
    def digest(self) -> str:
        """64 bits that identify the facts."""
        text = json.dumps(sorted(self.facts.items()))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def _key(self) -> str:
        return f"train/{self.run}"

    def differences(self, begun: Mapping[str, str]) -> list[str]:
        """Return the differences from the facts of the run that was begun, as texts."""
        both = {name: (begun.get(name), self.facts.get(name)) for name in {**begun, **self.facts}}
        return [
            f"{name} {_shortly(was)}, not {_shortly(now)}"
            for name, (was, now) in both.items()
            if was != now
        ]

    def check(self, store: Store) -> None:
        """Refuse a run of this name that was begun with other facts.

        Raises:
            QueryRefused: The name is in use; the message lists the differences.
        """
        with store.stream.held():
            begun = store.stream.ledger.fact(self._key)
        if begun is None:
            return self._check_unwritten(store)
        if not (differ := self.differences(begun)):
            return None
        raise QueryRefused(
            f"the run {self.run!r} was begun with {'; '.join(differ)}",
            "give this run another name (--run NAME), or repeat the facts of the run of that name",
        )

    def _check_unwritten(self, store: Store) -> None:
        if store.releases_of(step_request(self.run, what) for what in FIRST):
            raise QueryRefused(
                f"there is a run {self.run!r} of an earlier version of sparseq, which did not "
                "record the facts that it depends on",
                "its releases stay in the history; give this run another name (--run NAME)",
            )

    def written(self) -> list[Fact]:
        """Return the facts to write with the run's first release."""
        return [Fact(self._key, dict(self.facts))]


def identity_of(run: str, engine: Any, *facts: Mapping[str, Any]) -> Identity:
    """Return a run's identity: the given facts, and those of the engine, if it has any."""
    own = engine.facts() if hasattr(engine, "facts") else {"engine": type(engine).__qualname__}
    every = {name: value for some in (*facts, own) for name, value in some.items()}
    return Identity(run, {name: str(value) for name, value in every.items()})


def code_of(*things: Any) -> str:
    """Return a digest of the code of functions and classes, if Python can show it.

    Code in other files that they call is not included; for sparseq's own code it is their names.

    >>> code_of(len) == code_of(len), code_of(code_of) == code_of(identity_of)
    (True, False)
    """
    return digest_of(*(_source(thing) for thing in things))


def digest_of(*texts: str | bytes) -> str:
    """Return 64 bits that identify texts, in their order."""
    whole = hashlib.sha256()
    for text in texts:
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        whole.update(f"{len(data)}:".encode() + data)
    return whole.hexdigest()[:16]


def _source(thing: Any) -> str:
    name = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', repr(thing))}"
    if name.startswith("sparseq."):
        return name
    try:
        return name + inspect.getsource(thing)
    except (TypeError, OSError):  # built in, or typed at a prompt
        code = getattr(thing, "__code__", None)
        return name if code is None else name + repr((code.co_code, code.co_consts, code.co_names))


def _shortly(fact: str | None) -> str:
    if fact is None:
        return "not said"
    return fact if len(fact) <= _LONGEST else fact[: _LONGEST - 1] + "…"
