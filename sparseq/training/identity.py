"""The identity of a training run: all that its result depends on; its name stands for one run.

A run is found again by its name: its steps are read back from the journal, free. So a name must not
be given twice, and what the run depends on is written down with its first release: the settings,
where it starts, the table with the encoding of its columns (declared bounds and keys with it), and
the code of the model and of its loss. All of it is public. Asked again with anything else, the run
is refused with what differs. The history's texts have a digest of the same facts, so that a step
can't be read back by another run even where the record is missing.
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
"""Questions that a run begins with: the second alone, or both."""
_LONGEST = 60  # characters of a fact that an error shows


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
        """64 bits that stand for the facts."""
        text = json.dumps(sorted(self.facts.items()))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def _key(self) -> str:
        return f"train/{self.run}"

    def differences(self, begun: Mapping[str, str]) -> list[str]:
        """Return in words what differs from the facts of the run that was begun."""
        both = {name: (begun.get(name), self.facts.get(name)) for name in {**begun, **self.facts}}
        return [
            f"{name} {_shortly(was)}, not {_shortly(now)}"
            for name, (was, now) in both.items()
            if was != now
        ]

    def check(self, store: Store) -> None:
        """Refuse a run of this name that was begun as another one.

        Raises:
            QueryRefused: There is one; the message says what differs.
        """
        with store.stream.held():
            begun = store.stream.ledger.fact(self._key)
        if begun is None:
            return self._check_unwritten(store)
        if not (differ := self.differences(begun)):
            return None
        raise QueryRefused(
            f"the run {self.run!r} was begun with {'; '.join(differ)}",
            "give this one a name of its own (--run NAME), or repeat what that one was begun with",
        )

    def _check_unwritten(self, store: Store) -> None:
        if store.releases_of(step_request(self.run, what) for what in FIRST):
            raise QueryRefused(
                f"there is a run {self.run!r} of an earlier version of sparseq, which did not "
                "write down what it depends on",
                "its releases stay in the history; give this run a name of its own (--run NAME)",
            )

    def written(self) -> list[Fact]:
        """Return what is written with the run's first release."""
        return [Fact(self._key, dict(self.facts))]


def identity_of(run: str, engine: Any, *facts: Mapping[str, Any]) -> Identity:
    """Return a run's identity: given facts, and those of the engine, where it tells any."""
    own = engine.facts() if hasattr(engine, "facts") else {"engine": type(engine).__qualname__}
    every = {name: value for some in (*facts, own) for name, value in some.items()}
    return Identity(run, {name: str(value) for name, value in every.items()})


def code_of(*things: Any) -> str:
    """Return a digest of the code of functions and classes, as far as Python can show it.

    What they call in other files is not followed; of sparseq's own it is their names.

    >>> code_of(len) == code_of(len), code_of(code_of) == code_of(identity_of)
    (True, False)
    """
    return digest_of(*(_source(thing) for thing in things))


def digest_of(*texts: str | bytes) -> str:
    """Return 64 bits that stand for texts, in their order."""
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
