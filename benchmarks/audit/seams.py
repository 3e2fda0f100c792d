"""The one place that looks inside the product: what every step did, and its noise frozen.

A `Tape` stands where the step adds its noise. Recording, it keeps what is released; replaying, it
gives a neighbouring store these very outputs (dp-recorder, arXiv 2602.17454). Then whatever an
analyst sees must be the same to the last bit, and the exact sums behind it may differ by what the
one person has been charged for, and by nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sparseq.engine._duckdb.reader
import sparseq.store
from sparseq.comparison import Comparison
from sparseq.errors import SparseqError
from sparseq.ledger.pots import Pot
from sparseq.query.plan import Kind, Plan
from sparseq.store import Store

Ints = NDArray[np.int64]
Id = Any


@dataclass
class Step:
    """One step of the stream: private.

    Attributes:
        noise: (kind, sigma, granularity) of each measure.
        charges: What each identifier paid, in ledger units; `out`: who could not.
        sums: Exact, one array a measure. `released`: what left, in lattice steps.
        gaussian: It was the default mechanism, which noise and price can be checked of.
    """

    label: str
    noise: tuple[tuple[str, float, float], ...]
    charges: dict[Id, int]
    out: frozenset[Id]
    sums: list[Ints]
    released: list[Ints] = field(default_factory=list)
    gaussian: bool = True


@dataclass
class Seen:
    """What one store showed, and did, when it was asked something.

    Attributes:
        public: What anybody may see: compared to the last bit.
        path: SQL that the engine ran.
        steps, spent: Private; what each identifier has spent so far, by pot.
        overdrawn: Identifiers that have spent more than they had.
        told: New lines of the curator's log: private.
    """

    public: tuple[Any, ...]
    path: list[str]
    steps: list[Step]
    spent: dict[str, dict[Id, int]]
    overdrawn: list[Id]
    told: list[str]


class Tape:
    """Released outputs of one question, to be given to the neighbours."""

    def __init__(self) -> None:
        self.outputs: list[list[Ints]] = []
        self.at: int | None = None
        """Where replay is; None: recording."""
        self.torn = ""
        """Why replay could not give what was asked for."""

    def output(self, sums: Sequence[Ints], draw: Callable[[], Sequence[Ints]]) -> list[Ints]:
        """Return what is released: drawn and kept, or what was kept."""
        if self.at is None:
            self.outputs.append([np.array(o) for o in draw()])
            return [o.copy() for o in self.outputs[-1]]
        if self.at < len(self.outputs):
            kept = self.outputs[self.at]
            self.at += 1
            if [len(k) for k in kept] == [len(s) for s in sums]:
                return [k.copy() for k in kept]
            self.torn = "a release has other coordinates"
        else:
            self.torn = "there is a release more"
        return [np.array(o) for o in draw()]


class Watching:
    """Wraps the product's step while it is entered; one at a time."""

    def __init__(self) -> None:
        self.steps: list[tuple[Plan, Any, list[Ints], list[Ints], bool]] = []
        self.path: list[str] = []
        self.tape = Tape()
        self._passed: Any = None
        self._known: weakref.WeakKeyDictionary[Store, list[Id]] = weakref.WeakKeyDictionary()

    @contextlib.contextmanager
    def entered(self) -> Iterator[Watching]:
        """Watch every store of this process."""
        gate, add = sparseq.stream.step.gate, sparseq.stream.step.add_gaussian
        step, fetch = Store.step, sparseq.engine._duckdb.reader.Reader.fetch

        def gated(plan: Plan, *rest: Any) -> Any:
            passed = gate(plan, *rest)
            self._passed = (plan, passed)
            return passed

        def added(plan: Plan, sums: Sequence[Ints], entropy: Any) -> list[Ints]:
            released = self.tape.output(sums, lambda: add(plan, sums, entropy))
            self._keep(released, True)
            return released

        def stepped(store: Store, *args: Any, mechanism: Any = None, **more: Any) -> Any:
            def other(plan: Plan, sums: Sequence[Ints], entropy: Any) -> list[Ints]:
                drawn = mechanism(plan, sums, entropy)  # it may keep a state, replayed or not
                released = self.tape.output(sums, lambda: drawn)
                if isinstance(mechanism, Comparison):  # its run goes on from what was released
                    mechanism.fired = bool(released[0][0])
                self._keep(released, False)
                return released

            return step(store, *args, mechanism=None if mechanism is None else other, **more)

        def fetched(reader: Any, sql: str, *rest: Any, **more: Any) -> Any:
            self.path.append(sql)
            return fetch(reader, sql, *rest, **more)

        with contextlib.ExitStack() as undo:
            for place, name, new in (
                (sparseq.stream.step, "gate", gated), (sparseq.stream.step, "add_gaussian", added),
                (Store, "step", stepped), (sparseq.engine._duckdb.reader.Reader, "fetch", fetched),
            ):  # fmt: skip
                undo.callback(setattr, place, name, getattr(place, name))
                setattr(place, name, new)
            yield self

    def _keep(self, released: list[Ints], gaussian: bool) -> None:
        plan, passed = self._passed
        sums = [np.array(s, np.int64) for s in passed.sums]
        self.steps.append((plan, passed, sums, [r.copy() for r in released], gaussian))

    def all_four(
        self, stores: dict[str, Store], ask: Callable[[str, Store], object]
    ) -> dict[str, Seen]:
        """Do the same to neighbouring stores, with the first one's outputs frozen in the others."""
        self.tape, found = Tape(), dict[str, Seen]()
        for variant, store in stores.items():
            self.tape.at = 0 if found else None
            found[variant] = self.seen(store, lambda s, v=variant: ask(v, s))
        return found

    def seen(self, store: Store, ask: Callable[[Store], Any]) -> Seen:
        """Ask one store something, and return what it showed and did.

        Errors of the product's own kinds are part of what is shown. Any other is as well, and is a
        finding by itself (see `comparison`).
        """
        self.steps, self.path, self.tape.torn = [], [], ""
        if self.tape.at is not None:
            self.tape.at = 0
        before = len(notes(store))
        said = _Said()
        with warnings.catch_warnings(record=True) as warned, said.listening():
            warnings.simplefilter("always")
            public = shown(lambda: ask(store))
        warned = [w for w in warned if not issubclass(w.category, ResourceWarning)]  # by the clock
        words = (*said.lines, *(str(w.message) for w in warned))
        if self.tape.torn:
            public = (*public, self.tape.torn)
        if store.backend.database is None:  # an error closed it, which everybody notices
            return Seen((*public, "closed", words), self.path, [], {}, [], [])
        ids = self._ids(store)
        pots = list(_pots(store))
        return Seen(
            (*public, words),
            self.path,
            [self._step(ids, *one) for one in self.steps],
            {pot.name: dict(zip(ids, a.spent.tolist(), strict=True)) for pot, a in pots},
            [i for _, a in pots for i, over in zip(ids, a.spent > a.budgets, strict=True) if over],
            notes(store)[before:],
        )

    def _ids(self, store: Store) -> list[Id]:
        """Return identifiers in order of accounts; an erased one keeps the one it had."""
        known = self._known.setdefault(store, [])
        rows = store.backend.database.execute(
            "SELECT id FROM ledger.users ORDER BY _user"
        ).fetchall()
        for (found,) in rows[len(known) :]:
            known.append(found)
        return known[: len(rows)]

    @staticmethod
    def _step(
        ids: list[Id], plan: Plan, passed: Any, sums: list[Ints], out: list[Ints], gaussian: bool
    ) -> Step:
        paid = zip(passed.paying.tolist(), np.asarray(passed.due).tolist(), strict=True)
        return Step(
            plan.query.text,
            tuple(
                (m.kind.value, n.sigma, n.granularity)
                for m, n in zip(plan.query.measures, plan.noise, strict=True)
            ),
            {ids[u]: due for u, due in paid if due},
            frozenset(ids[u] for u in passed.left_out.tolist()),
            sums,
            out,
            gaussian and not plan.query.comparisons,
        )


class _Said(logging.Handler):
    """What was logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.split(".")[0] == "sparseq":
            self.lines.append(record.getMessage())

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hear what is logged."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)


def shown(ask: Callable[[], Any]) -> tuple[Any, ...]:
    """Return what anybody sees of a call: its kind, and all of the answer or of the error."""
    try:
        answer = ask()
    except SparseqError as error:
        return ("refused", type(error).__name__, error.message, error.hint)
    except Exception as error:  # no other may reach a user
        first = (str(error).splitlines() or [""])[0]
        return ("raised", type(error).__name__, first)
    if not hasattr(answer, "facts"):
        return ("done", repr(answer))
    table = answer.arrow()
    facts = repr(answer.facts)
    return ("answered", str(table.schema), table.num_rows, repr(table.to_pydict()), facts)


def notes(store: Store) -> list[str]:
    """Return the curator's log; nothing where the product has none."""
    try:
        from sparseq.ledger._duckdb.curator_log import CuratorLog

        return [f"{n.kind}: {n.message}" for n in CuratorLog(store.backend.database).entries()]
    except Exception:  # no log, or the store is closed
        return []


def _pots(store: Store) -> Iterator[tuple[Pot, Any]]:
    yield from store.stream.pots.items()


_ESTIMATES = re.compile(r"~?[\d,]+ rows?|EC:\s*\d+|cardinality\D*\d+", re.IGNORECASE)


def plan_of(store: Store, sql: str) -> str:
    """Return how DuckDB would run SQL, without the numbers of rows it expects."""
    try:
        ((_, text),) = store.backend.database.execute("EXPLAIN " + sql).fetchall()
    except Exception as error:  # a refusal here is what a user would meet
        return f"no plan: {type(error).__name__}"
    return re.sub(r"[\s│┌┐└┘─┬┴]+", " ", _ESTIMATES.sub("", text))


DENSE = Kind.DENSE.value
