"""The one place that looks inside the product: a record of every step, with its noise frozen.

A `Tape` replaces the noise of the step. When it records, it keeps the releases; when it replays, it
gives a neighbouring store the same outputs (dp-recorder, arXiv 2602.17454). Then everything that an
analyst sees must be the same to the last bit, and the exact sums behind it may differ only by
contributions for which the one person has been charged.
"""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sparseq.engine._duckdb.reader
import sparseq.store.store
import sparseq.stream.released_parts
import sparseq.stream.weighted_answer
from checks.audit.doors import explanation, standing
from sparseq.base._duckdb.connection import OPTIMIZERS
from sparseq.base.errors import SparseqError
from sparseq.engine._duckdb.engine import DuckEngine
from sparseq.engine.contributions import Contributions
from sparseq.ledger.packed_integers import unpack, unpack_set
from sparseq.ledger.pots import Pot
from sparseq.question.plan import Kind, Plan
from sparseq.store.store import Store
from sparseq.stream.comparison import Comparison
from sparseq.stream.contributors import Contributors, Loops
from sparseq.stream.node_sums import NodeSums

Ints = NDArray[np.int64]
Id = Any


@dataclass
class Step:
    """One step of the stream: private.

    Attributes:
        noise: (kind, sigma, granularity) of each measure; for a weighted answer, of each part,
            including pilots.
        charges: Charge of each identifier, in ledger units; `out`: people who could not pay.
        sums: Exact, one array per measure. `released`: the released values, in lattice steps.
        gaussian: True for the default mechanism, whose noise and price can be checked.
        weighted: True if people were weighted, by a scale that pilots chose.
        lived: With a cap over all windows, the charges to it, by first window.
    """

    label: str
    noise: tuple[tuple[str, float, float], ...]
    charges: dict[Id, int]
    out: frozenset[Id]
    sums: list[Ints]
    released: list[Ints] = field(default_factory=list)
    gaussian: bool = True
    weighted: bool = False
    lived: dict[Id, int] = field(default_factory=dict)


@dataclass
class Seen:
    """The observable and private effects of one question to one store.

    Attributes:
        public: Everything that an analyst may see: compared to the last bit.
        path: SQL that the engine ran.
        steps, spent: Private; spending of each identifier so far, by pot.
        overdrawn: Identifiers that have spent more than they had.
        told: New lines of the curator's log: private.
        lived: With a cap over all windows, the spending under it so far.
        journal: Recorded charges of each identifier, by new release.
        free: The explanation of a question, before it was asked, and the store's public facts after
            it: public.
    """

    public: tuple[Any, ...]
    path: list[str]
    steps: list[Step]
    spent: dict[str, dict[Id, int]]
    overdrawn: list[Id]
    told: list[str]
    lived: dict[Id, int] = field(default_factory=dict)
    journal: list[dict[Id, int]] = field(default_factory=list)
    free: tuple[Any, ...] = ()


class Tape:
    """Released outputs of one question, to be given to the neighbours."""

    def __init__(self) -> None:
        self.outputs: list[list[Ints]] = []
        self.at: int | None = None
        """Where replay is; None: recording."""
        self.torn = ""
        """Why replay could not give what was asked for."""

    def output(self, sums: Sequence[Ints], draw: Callable[[], Sequence[Ints]]) -> list[Ints]:
        """Return the released values: drawn and kept, or the kept ones."""
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


@dataclass
class Part:
    """A noised part of a weighted answer: its noise, exact sums and released values."""

    noise: tuple[str, float, float]
    sums: Ints
    released: Ints


class Watching:
    """Wraps the product's step while it is entered; one at a time."""

    def __init__(self) -> None:
        self.steps: list[tuple[Plan, Any, Any, list[Ints], list[Ints], bool] | Step] = []
        self.weighted = Weighted(self)
        self.path: list[str] = []
        self.tape = Tape()
        self._passed: Any = None
        self._known: weakref.WeakKeyDictionary[Store, list[Id]] = weakref.WeakKeyDictionary()
        self._last: weakref.WeakKeyDictionary[Store, int] = weakref.WeakKeyDictionary()

    @contextlib.contextmanager
    def entered(self) -> Iterator[Watching]:
        """Watch every store of this process."""
        admit, add = sparseq.stream.step.admit, sparseq.stream.step.add_gaussian
        step, fetch = Store.step, sparseq.engine._duckdb.reader.Reader.fetch

        def admitted(plan: Plan, made: Any, bill: Any) -> Any:
            passed = admit(plan, made, bill)
            self._passed = (plan, passed, bill)
            return passed

        def added(plan: Plan, sums: Sequence[Ints], entropy: Any) -> list[Ints]:
            released = self.tape.output(sums, lambda: add(plan, sums, entropy))
            self._keep(released, True)
            return released

        def stepped(store: Store, *args: Any, mechanism: Any = None, **more: Any) -> Any:
            def other(plan: Plan, sums: Sequence[Ints], entropy: Any) -> list[Ints]:
                drawn = mechanism(plan, sums, entropy)  # it may keep a state, replayed or not
                released = self.tape.output(drawn, lambda: drawn)
                if isinstance(mechanism, Comparison):  # its run goes on from what was released
                    mechanism.fired = bool(released[0][0])
                self._keep(released, False)
                return released

            return step(store, *args, mechanism=None if mechanism is None else other, **more)

        def fetched(reader: Any, sql: str, *rest: Any, **more: Any) -> Any:
            self.path.append(sql)
            return fetch(reader, sql, *rest, **more)

        check = DuckEngine.check_alone

        def checked(engine: DuckEngine) -> Any:
            """Skip reads that check people alone: they happen by chance, after the commit."""
            known = len(self.path)
            try:
                return check(engine)
            finally:
                del self.path[known:]

        with contextlib.ExitStack() as undo:
            for place, name, new in (
                (DuckEngine, "check_alone", checked),
                (sparseq.stream.step, "admit", admitted),
                (sparseq.stream.step, "add_gaussian", added),
                (Store, "step", stepped),
                (sparseq.engine._duckdb.reader.Reader, "fetch", fetched),
                *self.weighted.places(),
            ):
                undo.callback(setattr, place, name, getattr(place, name))
                setattr(place, name, new)
            yield self

    def _keep(self, released: list[Ints], gaussian: bool) -> None:
        plan, passed, bill = self._passed
        sums = [np.array(s, np.int64) for s in passed.sums]
        self.steps.append((plan, passed, bill, sums, [r.copy() for r in released], gaussian))

    def all_four(
        self, stores: dict[str, Store], ask: Callable[[str, Store], object], sql: str = ""
    ) -> dict[str, Seen]:
        """Do the same to neighbouring stores, with the first one's outputs frozen in the others.

        Args:
            stores: The four.
            ask: The action.
            sql: The question that it asks, which is explained first; "": none.
        """
        self.tape, found = Tape(), dict[str, Seen]()
        for variant, store in stores.items():
            self.tape.at = 0 if found else None
            found[variant] = self.seen(store, lambda s, v=variant: ask(v, s), sql)
        return found

    def seen(self, store: Store, ask: Callable[[Store], Any], sql: str = "") -> Seen:
        """Do an action to one store, and return its effects.

        Errors of the product's own kinds are part of the public effects. Any other error is as
        well, and is a finding by itself (see `comparison`).
        """
        self.steps, self.path, self.tape.torn = [], [], ""
        if self.tape.at is not None:
            self.tape.at = 0
        before = len(notes(store))
        said = _Said()
        with warnings.catch_warnings(record=True) as warned, said.listening():
            warnings.simplefilter("always")
            explained = shown(lambda: explanation(store, sql)) if sql else ()
            public = shown(lambda: ask(store))
        warned = [w for w in warned if not issubclass(w.category, ResourceWarning)]  # by the clock
        words = (*said.lines, *(str(w.message) for w in warned))
        if self.tape.torn:
            public = (*public, self.tape.torn)
        if store.backend.database is None:  # an error closed it, which everybody notices
            return Seen((*public, "closed", words), self.path, [], {}, [], [])
        free = (*explained, *standing(store))
        ids = self.ids(store)
        pots = list(_pots(store))
        return Seen(
            (*public, words),
            self.path,
            [self._step(ids, one) for one in self.steps],
            {pot.name: dict(zip(ids, a.spent.tolist(), strict=True)) for pot, a in pots},
            [i for _, a in pots for i, over in zip(ids, a.spent > a.budgets, strict=True) if over],
            notes(store)[before:],
            _lived(store, ids),
            self._recorded(store, ids),
            free,
        )

    def opened(self, before: Store, again: Store) -> None:
        """Note that a store was opened again, so that the owners of its accounts are known."""
        self._known[again] = self._known.get(before, [])
        self._last[again] = self._last.get(before, 0)

    def ids(self, store: Store) -> list[Id]:
        """Return identifiers in order of accounts; an erased one keeps its former identifier."""
        known = self._known.setdefault(store, [])
        rows = store.backend.database.execute(
            "SELECT id FROM ledger.users ORDER BY _user"
        ).fetchall()
        for (found,) in rows[len(known) :]:
            known.append(found)
        return known[: len(rows)]

    def _recorded(self, store: Store, ids: list[Id]) -> list[dict[Id, int]]:
        """Return the charges of releases that the journal has since it was last looked at."""
        found = list[dict[Id, int]]()
        rows = store.backend.database.execute(
            "SELECT id, users, charges FROM ledger.release WHERE id > ? ORDER BY id",
            [self._last.get(store, 0)],
        ).fetchall()
        for number, users, charges in rows:
            paid = zip(unpack_set(users).tolist(), unpack(charges).tolist(), strict=True)
            found.append({ids[u]: units for u, units in paid if units})
            self._last[store] = number
        return found

    @staticmethod
    def _step(ids: list[Id], one: Any) -> Step:
        if isinstance(one, Step):
            mine, lived = (
                {ids[u]: due for u, due in paid.items()} for paid in (one.charges, one.lived)
            )
            return replace(one, charges=mine, lived=lived)
        plan, passed, bill, sums, out, gaussian = one
        paid = zip(*(some.tolist() for some in bill.paid()), strict=True)
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
            lived=_paid_for_life(bill.lifetimes, ids),
        )


class Weighted:
    """Wraps the step in which people are weighted: every noised part goes over the tape."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._parts: list[Part] = []
        self._sums: list[Ints] = []  # of parts whose noise is not yet drawn
        self._said: tuple[str, float, float] | None = None  # of a pilot's noise

    def places(self) -> list[tuple[Any, str, Any]]:
        """Return the wrapped places: (owner, name, replacement)."""
        place, flow = sparseq.stream.released_parts, sparseq.stream.weighted_answer
        draw, pilot_noise = place.rounded_gaussian, place.pilot_noise
        weighted, answer = Contributions.weighted, flow.answer
        weigh, nodes = place.ReleasedParts.weigh, NodeSums.nodes

        def said(variance: int, budget: Any) -> Any:
            noise = pilot_noise(variance, budget)
            self._said = ("pilot", noise.sigma, noise.granularity)
            return noise

        def tallied(tally: Any) -> Any:
            def counted(people: Any, *asked: Any) -> Ints:
                found: Ints = tally(people, *asked)
                self._sums = [np.array(found)]
                return found

            return counted

        def summed(made: Contributions, weights: Any) -> list[Ints]:
            found = weighted(made, weights)
            self._sums = [np.array(total) for total in found]
            return found

        def drawn(sigma: float, size: int, entropy: Any) -> Ints:
            total = self._sums.pop(0)
            (out,) = self._watching.tape.output(
                [total], lambda: [total + draw(sigma, size, entropy)]
            )
            self._parts.append(Part(self._said or ("", sigma, 1.0), total, out))
            self._said = None
            return out - total

        def weighed(step: Any, *rest: Any) -> Any:
            before = len(self._parts)
            found = weigh(step, *rest)
            plan = found[0]
            for i, (m, n) in enumerate(zip(plan.query.measures, plan.noise, strict=True), before):
                noise = m.kind.value, n.sigma, n.granularity
                self._parts[i] = replace(self._parts[i], noise=noise)
            return found

        def answered(*asked: Any) -> Any:
            self._parts, self._sums, self._said = [], [], None
            done = answer(*asked)
            self._watching.steps.append(self._step(done.query.text, asked[0].bill))
            return done

        def measured(sums: NodeSums, *asked: Any) -> Any:
            self._parts, self._sums, self._said = [], [], None
            done = nodes(sums, *asked)
            self._watching.steps.append(self._step(done.plan.query.text, sums.bill))
            return done

        return [
            (place, "rounded_gaussian", drawn),
            (place, "pilot_noise", said),
            (Contributors, "tally", tallied(Contributors.tally)),
            (Loops, "tally", tallied(Loops.tally)),
            (Contributions, "weighted", summed),
            (flow, "answer", answered),
            (NodeSums, "nodes", measured),
            (place.ReleasedParts, "weigh", weighed),
        ]

    def _step(self, text: str, bill: Any) -> Step:
        noise = [part.noise for part in self._parts]
        paid = zip(*(some.tolist() for some in bill.paid()), strict=True)
        return Step(
            text,
            tuple(noise),
            {u: due for u, due in paid if due},
            frozenset(),
            [part.sums for part in self._parts],
            [part.released for part in self._parts],
            weighted=True,
            lived=_paid_for_life(bill.lifetimes, range(2**31)),
        )


def _paid_for_life(dues: Any, ids: Sequence[Id]) -> dict[Id, int]:
    if dues is None:
        return {}
    return {ids[p]: u for p, u in zip(dues.people.tolist(), dues.units.tolist(), strict=True)}


def _lived(store: Store, ids: list[Id]) -> dict[Id, int]:
    lifetimes = store.stream.ledger.lifetimes
    if lifetimes is None:
        return {}
    return {ids[p]: int(lifetimes.spent[p]) for p in set(lifetimes.people.tolist())}


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
        """Record log messages."""
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


def rules_not_judged(store: Store) -> set[str]:
    """Return the active rules of DuckDB's optimiser that were not judged.

    Their effect is not known, and neighbours may not reveal it.
    """
    database = store.backend.database
    names = {
        name for (name,) in database.execute("SELECT name FROM duckdb_optimizers()").fetchall()
    }
    ((off,),) = database.execute("SELECT current_setting('disabled_optimizers')").fetchall()
    return names - set(off.split(",")) - {name for name, (on, _) in OPTIMIZERS.items() if on}


_ESTIMATES = re.compile(r"~?[\d,]+ rows?|EC:\s*\d+|cardinality\D*\d+", re.IGNORECASE)


def plan_of(store: Store, sql: str) -> str:
    """Return how DuckDB would run SQL, without the numbers of rows it expects."""
    try:
        ((_, text),) = store.backend.database.execute("EXPLAIN " + sql).fetchall()
    except Exception as error:  # a refusal here is what a user would meet
        return f"no plan: {type(error).__name__}"
    return re.sub(r"[\s│┌┐└┘─┬┴]+", " ", _ESTIMATES.sub("", text))


DENSE = Kind.DENSE.value
