"""Leaks, planted one at a time: the leaks that the audit finds show what it can find.

Each breaks the product while it is entered, and must be found twice: by questions written for it
(a test of some seconds), and by the search, which does not know of it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

import sparseq.engine._duckdb.reader
import sparseq.question.plan
import sparseq.series.methods.strategy_series
import sparseq.store.found_keys
import sparseq.store.store
import sparseq.stream.contributors
import sparseq.stream.new_purpose
import sparseq.stream.question
import sparseq.stream.released_parts
import sparseq.stream.shared_pilot_releases
import sparseq.stream.weighted_sums
from checks.audit import planted_books, planted_loads
from checks.audit.planting import Leak, Plant, put, reduced
from sparseq.accounting.pilots.column_values import column_of
from sparseq.accounting.strategies import ONE
from sparseq.base._duckdb import connection
from sparseq.base.errors import QueryRefused
from sparseq.dashboards import panel_answers
from sparseq.engine._duckdb.engine import DuckEngine
from sparseq.engine.cells import Cells
from sparseq.engine.contributions import Contributions
from sparseq.ledger.accounts import Accounts
from sparseq.ledger.lifetimes import LifeDues, Lifetimes
from sparseq.ledger.purposes import Purpose
from sparseq.load._duckdb.linked_rows import KeyIndex
from sparseq.load._duckdb.load_tables import Loading
from sparseq.load.column_report import UnclearDates
from sparseq.load.composite_identifier import CompositeFile
from sparseq.load.load_rows import IncomingRows
from sparseq.sql.scope import Scope
from sparseq.sql.subqueries import _Inner
from sparseq.store.store import Store
from sparseq.stream.node_sums import NodeSums
from sparseq.stream.release_charges import Bill
from sparseq.stream.user_weights import PILOT_BITS, Hats


def rule_on(name: str) -> Plant:
    """Return what switches a rule of the optimiser on that is off."""
    right = connection.off
    assert name in right()
    return lambda: put(connection, "off", lambda: right() - {name})


def _sql_changed(change: Callable[[str], str]) -> AbstractContextManager[None]:
    """Change the SQL that the engine runs."""
    fetch = sparseq.engine._duckdb.reader.Reader.fetch

    def fetched(reader: Any, sql: str, *rest: Any, **more: Any) -> Any:
        return fetch(reader, change(sql), *rest, **more)

    return put(sparseq.engine._duckdb.reader.Reader, "fetch", fetched)


def _calls_changed(sql: str, name: str, form: str) -> str:
    """Return SQL with every call of a function of one argument in another form."""
    out, at = [], 0
    for found in re.finditer(rf"\b{name}\(", sql, re.IGNORECASE):
        if found.start() < at:
            continue
        depth, end = 1, found.end()
        while depth and end < len(sql):
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        out += [sql[at : found.start()], form.format(sql[found.end() : end - 1])]
        at = end
    return "".join([*out, sql[at:]])


def raising_function() -> AbstractContextManager[None]:
    """abs() raises above a thousand, and nothing guards it."""
    form = "(CASE WHEN ({0}) > 1000 THEN CAST(error('planted') AS INTEGER) ELSE abs({0}) END)"
    return _sql_changed(lambda sql: _calls_changed(sql, "abs", form).replace("TRY(", "("))


def truncation_not_read() -> AbstractContextManager[None]:
    """A condition on the start of a day's year is read as a condition on the day: of one window."""
    apart = Scope.window_apart

    def within(tree: exp.Expr) -> exp.Expr:
        return tree.this if isinstance(tree, exp.DateTrunc | exp.TimestampTrunc) else tree

    def widely(scope: Scope) -> Any:
        found = apart(scope)
        if found is not None:
            return found
        with put(scope, "where", [w.copy().transform(within) for w in scope.where]):
            return apart(scope)

    return put(Scope, "window_apart", widely)


def offset_dropped() -> AbstractContextManager[None]:
    """The offset of a moment is ignored: its clock is taken for UTC."""
    ask = Store.sql

    def asked(store: Store, text: str, **options: Any) -> Any:
        return ask(store, _ZONED.sub(r"TIMESTAMP '\1'", text), **options)

    return put(Store, "sql", asked)


_ZONED = re.compile(r"(?:TIMESTAMPTZ )?'([\d-]{10} [\d:.]{8,})(?:[+-][\d:]+|Z| [A-Z][\w/]+)'")


def charges_too_small() -> AbstractContextManager[None]:
    """All users pay 10 % less than the price of their contributions."""
    paid = Bill.paid

    def less(bill: Bill) -> Any:
        users, charges = paid(bill)
        return users, charges * 9 // 10

    return put(Bill, "paid", less)


@contextlib.contextmanager
def noise_too_small() -> Iterator[None]:
    """The noise has 10 % less sigma than is stated."""
    draw = sparseq.stream.step.rounded_gaussian
    with contextlib.ExitStack() as stack:
        for place in (sparseq.stream.step, sparseq.stream.released_parts):
            less = put(place, "rounded_gaussian", lambda sigma, *rest: draw(0.9 * sigma, *rest))
            stack.enter_context(less)
        yield


@contextlib.contextmanager
def key_if_present() -> Iterator[None]:
    """A group that nobody is in has no row in the answer."""
    admit, render, sums = sparseq.stream.step.admit, sparseq.stream.step.render, []

    def admitted(plan: Any, *rest: Any) -> Any:
        passed = admit(plan, *rest)
        sums[:] = [np.reshape(s, (plan.query.groups, -1)) for s in passed.sums]
        return passed

    def rendered(plan: Any, noised: Any) -> Any:
        table = render(plan, noised)
        if not sums:
            return table
        there = np.any([s.any(axis=1) for s in sums], axis=0)
        return table.filter(there) if table.num_rows == len(there) > 1 else table

    place = sparseq.stream.step
    with put(place, "admit", admitted), put(place, "render", rendered):
        yield


def cap_by_another() -> AbstractContextManager[None]:
    """Values are cut off at what others have: thrice the mean size of all."""

    def capped(reduce: Any, runs: Any, places: Any, values: Any, *rest: Any) -> Any:
        if values is not None and len(values):
            most = max(int(3 * np.abs(values.astype(np.float64)).mean()), 1)
            values = np.clip(values, -most, most).astype(values.dtype)
        return reduce(runs, places, values, *rest)

    return reduced(capped)


def message_with_value() -> AbstractContextManager[None]:
    """A refusal says how many rows there are."""
    sql = Store.sql

    def told(store: Store, text: str, **options: Any) -> Any:
        try:
            return sql(store, text, **options)
        except QueryRefused as error:
            ((rows,),) = store.backend.database.execute("SELECT count(*) FROM by_user.t").fetchall()
            raise QueryRefused(error.message, f"{error.hint}; {rows} rows were looked at") from None

    return put(Store, "sql", told)


def move_by_others() -> AbstractContextManager[None]:
    """The amount that moves to a purpose is a share of people's average remaining budget."""
    right = sparseq.stream.new_purpose.charges_for

    def moved(left: Any, share: float) -> Any:
        return right(np.full_like(left, int(left.mean()) if len(left) else 0), share).clip(max=left)

    return put(sparseq.stream.new_purpose, "charges_for", moved)


def late_row_of_another() -> AbstractContextManager[None]:
    """A row that has waited for its parent is given to the first person, who pays for it."""
    right = Loading.release

    def release(loading: Loading) -> bool:
        rows = f"by_user.{loading.table.name}"
        last = loading._con.execute(f"SELECT coalesce(max(rowid), -1) FROM {rows}").fetchone()
        found = right(loading)
        loading._con.execute(f"UPDATE {rows} SET _user = 0 WHERE rowid > ?", last)
        return found

    return put(Loading, "release", release)


def key_of_the_last() -> AbstractContextManager[None]:
    """A key is whose the last row with it is."""

    def before(index: KeyIndex, claims: str) -> None:
        index._con.execute(
            f"DELETE FROM {index.sql} AS i "
            f"WHERE EXISTS (FROM ({claims}) AS t WHERE {index.equal('i', index._keys, 't')})"
        )

    return _claiming(before, lambda *_: None)


def key_of_nobody() -> AbstractContextManager[None]:
    """A key that several people bring in one load is nobody's."""

    def after(index: KeyIndex, claims: str) -> None:
        same = index.equal("i", index._keys, "t")
        index._con.execute(
            f"UPDATE {index.sql} AS i SET _user = NULL WHERE EXISTS "
            f"(FROM ({claims}) AS t WHERE t._user <> i._user AND {same})"
        )

    return _claiming(lambda *_: None, after)


def _claiming(
    before: Callable[[KeyIndex, str], None], after: Callable[[KeyIndex, str], None]
) -> AbstractContextManager[None]:
    """Do more whenever rows claim keys."""
    right = KeyIndex.claim

    def claim(index: KeyIndex, claims: str, secret: bytes | None, new: bool) -> Any:
        before(index, claims)
        counts = right(index, claims, secret, new)
        after(index, claims)
        return counts

    return put(KeyIndex, "claim", claim)


def part_of_twice() -> AbstractContextManager[None]:
    """A part has twice the units that were given for it."""
    right = Purpose.units

    def units(purpose: Purpose, store: Any, given: Any) -> Any:
        answers, aside = right(purpose, store, given)
        return 2 * answers, aside

    return put(Purpose, "units", units)


def float_in_the_filter() -> AbstractContextManager[None]:
    """Activity is decided in single precision."""

    left = Accounts.left

    def about(accounts: Accounts, users: Any) -> Any:
        gone = accounts.budgets[users] - left(accounts, users)
        rounded = accounts.budgets[users].astype(np.float32) - gone.astype(np.float32)
        return rounded.astype(np.int64)

    return put(Accounts, "left", about)


def order_of_addition() -> AbstractContextManager[None]:
    """Squared norms are differences of one running sum, in floating point."""

    def running(reduce: Any, *args: Any) -> Any:
        reduced = reduce(*args)
        total = np.cumsum(np.minimum(reduced.norms, 2**52).astype(np.float32), dtype=np.float32)
        norms = np.diff(total, prepend=np.float32(0)).astype(np.int64)
        return replace(reduced, norms=np.maximum(norms, 0))

    return reduced(running)


def not_row_by_row() -> AbstractContextManager[None]:
    """An expression reads the previous row, of whatever person."""

    def shifted(reduce: Any, runs: Any, places: Any, values: Any, *rest: Any) -> Any:
        return reduce(runs, places, None if values is None else np.roll(values, 1), *rest)

    return reduced(shifted)


@contextlib.contextmanager
def factor_two() -> Iterator[None]:
    """The price of a query is half of the correct price."""
    plan, right = sparseq.question.plan, sparseq.question.plan.Price

    class Half:
        @staticmethod
        def of(*args: Any) -> Any:
            price = right.of(*args)
            exact = price.exact / 2
            return replace(price, exact=Fraction(exact), shift=price.shift + 1)

    plan._noise.cache_clear()
    try:
        with put(plan, "Price", Half):
            yield
    finally:
        plan._noise.cache_clear()


def old_bounds() -> AbstractContextManager[None]:
    """A column that a subquery redefines keeps the bounds of the stored column of its name."""
    facts = Scope.facts

    def by_name(scope: Scope, column: Any) -> Any:
        found = facts(scope, column)
        for table in scope.public.catalog.tables:
            for stored in table.columns:
                if stored.name == column.name and stored.bounds is not None:
                    return replace(found, bounds=stored.bounds)
        return found

    return put(Scope, "facts", by_name)


def sniffed_type() -> AbstractContextManager[None]:
    """The reading of a file's dates is guessed from the file, not taken from the table."""
    made = IncomingRows.__init__

    def sniffed(rows: Any, source: Any, schema: Any = None, *rest: Any, **more: Any) -> None:
        made(rows, source, schema, *rest, **more)
        if schema is not None:
            guessed = made_alone(source, schema)
            formats = {c: guessed.formats.get(c, f) for c, f in schema.formats.items()}
            rows.schema = replace(schema, formats=formats)

    def made_alone(source: Any, schema: Any) -> Any:
        alone = IncomingRows.__new__(IncomingRows)
        try:
            made(alone, source)
        except UnclearDates:  # nothing in the file tells
            return schema
        alone.close()
        return alone.schema

    return (
        put(IncomingRows, "__init__", sniffed) if hasattr(IncomingRows, "_guess") else nullcontext()
    )


@contextlib.contextmanager
def scale_of_exact_counts() -> Iterator[None]:
    """C is chosen from a pilot's exact sums, before their noise."""
    choose, histogram, kept = sparseq.stream.weighted_sums.choose, Hats.histogram, list[Any]()

    def counted(hats: Hats, cells: int) -> Any:
        kept[:] = [histogram(hats, cells)]
        return kept[0]

    def chosen(question: Any, reading: Any, *rest: Any, **more: Any) -> Any:
        exact = kept[0] / 2.0**PILOT_BITS
        return choose(question, replace(reading, people=exact), *rest, **more)

    with (
        put(Hats, "histogram", counted),
        put(sparseq.stream.weighted_sums, "choose", chosen),
    ):
        yield


@contextlib.contextmanager
def centre_of_exact_values() -> Iterator[None]:
    """Averages and quantiles are about the values of a column pilot before its noise."""
    step, weighted, kept = (
        sparseq.stream.weighted_sums.WeightedSums,
        Contributions.weighted,
        list[Any](),
    )
    weigh, values = step.weigh, step.values

    def summed(made: Contributions, weights: Any) -> Any:
        kept[:] = weighted(made, weights)
        return list(kept)

    def weighed(self: Any, *rest: Any) -> Any:
        found = weigh(self, *rest)
        kept.append(found[0])
        return found

    def exact(self: Any, pilot: Any) -> Any:
        values(self, pilot)
        rows, plan = kept
        return rows * plan.noise[0].granularity

    with (
        put(Contributions, "weighted", summed),
        put(step, "weigh", weighed),
        put(step, "values", exact),
        put(
            sparseq.stream.shared_pilot_releases,
            "column_of",
            lambda e, rows, _: column_of(e, rows, 0.0),
        ),
    ):
        yield


def account_of_another() -> AbstractContextManager[None]:
    """A person's weight is computed from the next person's remaining budget."""
    allowances = sparseq.stream.user_weights.allowances
    return put(
        sparseq.stream.contributors, "allowances", lambda *args: np.roll(allowances(*args), 1)
    )


@contextlib.contextmanager
def clock_by_accounts() -> Iterator[None]:
    """Everybody counts for less as soon as somebody has little left: accounts set the clock."""
    made = sparseq.stream.released_parts.contributors

    def looked(dues: Any, norms: Any, exponents: Any, cautious: float, life: float) -> Any:
        poorest = int(dues.left.min(initial=2**62))
        slow = 1.0 if poorest > 2**25 else 4.0
        return made(dues, norms, exponents, slow * cautious, life)

    with put(sparseq.stream.released_parts, "contributors", looked):
        yield


@contextlib.contextmanager
def fading_for_nothing() -> Iterator[None]:
    """Nobody pays for being asked how far people have faded."""
    sums = sparseq.stream.weighted_sums.WeightedSums
    ask = sums.ask_tails

    def asked(self: Any, key: str, query: Any) -> None:
        before = self.bill
        self.bill = Bill(before._accounts)
        ask(self, key, query)
        self.bill = before

    with put(sums, "ask_tails", asked):
        yield


@contextlib.contextmanager
def pilots_by_accounts() -> Iterator[None]:
    """There are no pilots where nobody has faded: accounts say so, and not the release log."""
    allowances, kept = sparseq.stream.user_weights.allowances, list[Any]()
    needs = sparseq.stream.question.needs_pilots

    def looked(*args: Any) -> Any:
        kept[:] = [allowances(*args)]
        return kept[0]

    def needed(*args: Any) -> bool:
        return bool(needs(*args)) and bool(kept and kept[0].min(initial=1.0) < 1.0)

    with (
        put(sparseq.stream.contributors, "allowances", looked),
        put(sparseq.stream.question, "needs_pilots", needed),
    ):
        yield


def pilots_for_nothing() -> AbstractContextManager[None]:
    """Nobody pays for pilots."""
    return put(Hats, "norms", property(lambda hats: np.zeros_like(hats.low)))


@contextlib.contextmanager
def tap_not_charged() -> Iterator[None]:
    """People who are measured for earlier ticks only pay nothing."""
    place, kept = sparseq.series.methods.strategy_series, list[Any]()
    made, tick = place.contributions_of_distinct, place.Band.tick

    def ticked(band: Any, *args: Any) -> Any:
        kept[:] = [tick(band, *args)]
        return kept[0]

    def of(cells: Cells, size: int) -> Contributions:
        whole = made(cells, size)
        (all_,) = whole.measures
        norms = np.where(np.isin(all_.users, kept[0].cells.users), all_.norms, 0)
        return Contributions([replace(all_, norms=norms)], whole.pull)

    with put(place.Band, "tick", ticked), put(place, "contributions_of_distinct", of):
        yield


def node_pilots_for_nothing() -> AbstractContextManager[None]:
    """Nobody is charged for the pooled pilots of a dashboard's nodes."""
    right = NodeSums._pilot

    def free(sums: Any, node: Any, people: Any) -> Any:
        with put(sums.bill, "put", lambda _: None):
            return right(sums, node, people)

    return put(NodeSums, "_pilot", free)


def panel_by_accounts() -> AbstractContextManager[None]:
    """A panel's interval depends on what people have left."""
    right = panel_answers._answer

    def by_accounts(board: Any, panel: Any, nodes: Any, solutions: Any, beta: float) -> Any:
        paid = sum(int(a.spent.sum()) for _, a in board.store.stream.pots.items())
        return right(board, panel, nodes, solutions, beta / (1 + paid % 7))

    return put(panel_answers, "_answer", by_accounts)


@contextlib.contextmanager
def late_rows_free() -> Iterator[None]:
    """Rows that came after their tick are added to the next measurement, and nobody pays."""
    place = sparseq.series.methods.strategy_series
    cells_of, made = DuckEngine.cells, place.contributions_of_distinct
    before: dict[Any, tuple[Any, Cells]] = {}
    late: list[Any] = [0]

    def sums(cells: Cells, size: int) -> Any:
        return np.bincount(cells.coordinates, cells.values, size).astype(np.int64)

    def counted(engine: Any, plan: Any, users: int) -> Cells:
        size = plan.query.coordinates
        last = before.get(engine)
        late[0] = (
            0
            if last is None
            else ONE * (sums(cells_of(engine, last[0], users), size) - sums(last[1], size))
        )
        cells = cells_of(engine, plan, users)
        before[engine] = plan, cells
        return cells

    def of(cells: Cells, size: int) -> Contributions:
        whole = made(cells, size)
        (all_,) = whole.measures
        return Contributions([replace(all_, totals=all_.totals + late[0])], whole.pull)

    with put(DuckEngine, "cells", counted), put(place, "contributions_of_distinct", of):
        yield


def window_of_the_day_after() -> AbstractContextManager[None]:
    """Rows of a window's last day are another window's: as if a day began elsewhere."""
    made = CompositeFile._identifiers

    def identifiers(file: Any, arrays: list[pa.Array]) -> pa.Array:
        day = pc.add(arrays[-1].cast(pa.timestamp("us")), pa.scalar(dt.timedelta(1)))
        return made(file, [*arrays[:-1], day.cast(arrays[-1].type)])

    return put(CompositeFile, "_identifiers", identifiers)


def window_not_charged() -> AbstractContextManager[None]:
    """A question charges the first window that it touches, and no other."""
    paid = Bill.paid

    def first(bill: Bill) -> Any:
        users, charges = paid(bill)
        return users, charges * (np.arange(len(charges)) == 0)

    return put(Bill, "paid", first)


def cap_of_one_window() -> AbstractContextManager[None]:
    """The account for life pays for one window of a question, whichever else are in it."""
    admits = Lifetimes.admits

    def admitted(lifetimes: Lifetimes, windows: Any, charges: Any, apart: bool) -> Any:
        _, first = np.unique(lifetimes.people[windows], return_index=True)
        _, dues = admits(lifetimes, windows[np.sort(first)], charges[np.sort(first)], apart)
        return admits(lifetimes, windows, charges, apart)[0], dues

    return put(Lifetimes, "admits", admitted)


def windows_that_add_up() -> AbstractContextManager[None]:
    """Windows that are weighted, and add up, pay for life as if they did not."""
    admit = LifeDues.admit
    return put(LifeDues, "admit", lambda dues, due, able, _: admit(dues, due, able, True))


def life_of_another() -> AbstractContextManager[None]:
    """The account for life is another person's."""
    made = Lifetimes.add_windows

    def shared(lifetimes: Lifetimes, people: Any) -> None:
        made(lifetimes, people % 2)

    return put(Lifetimes, "add_windows", shared)


def window_of_others() -> AbstractContextManager[None]:
    """A window function goes over everybody's rows."""
    window = _Inner._window

    def across(inner: Any, node: Any) -> Any:
        term, own = window(inner, node), f"PARTITION BY {inner.scope.user}"
        return replace(term, sql=term.sql.replace(own, "PARTITION BY 1"))

    return put(_Inner, "_window", across)


def no_threshold() -> AbstractContextManager[None]:
    """A key is found whose noised weight is above 0."""
    place = sparseq.store.found_keys
    right = place.threshold_for
    return put(place, "threshold_for", lambda *args: replace(right(*args), steps=0))


def delta_of_the_lonely() -> AbstractContextManager[None]:
    """Nobody pays delta for a key that others have picked too: they would lift it anyway."""
    search = sparseq.store.found_keys._Search
    right = search.notes

    def counted(looked: Any, who: Any) -> Any:
        picks = looked._picks
        shared = np.bincount(picks.places, minlength=len(picks.keys))[picks.places] > 1
        alone = replace(picks, users=picks.users[~shared], places=picks.places[~shared])
        with put(looked, "_picks", alone):
            return right(looked, who)

    return put(search, "notes", counted)


_COUNT = "SELECT count(*) AS a0 FROM t"
_SUM = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 100) sum(x) AS a0 FROM t"
_MEDIAN = "SELECT median(least(greatest(x, 0), 100)) AS a0 FROM t"
LEAKS: tuple[Leak, ...] = (
    Leak(
        "optimiser statistics on",
        rule_on("statistics_propagation"),
        ("SELECT count(*) AS a0 FROM (SELECT who, n FROM t) AS i WHERE n > 1000",),
        ("engine's plan", "outcome"),
    ),
    Leak(
        "an optimiser's rule that nobody judged",
        rule_on("self_join_aggregate"),
        (_COUNT,),
        ("unjudged rule",),
    ),
    Leak(
        "a condition on time that is read too widely",
        truncation_not_read,
        (),
        ("undercharged",),
        windows="person",
    ),
    Leak("an offset that is dropped", offset_dropped, (), ("another sum",), life="moments"),
    Leak(
        "a function that raises",
        raising_function,
        ("SELECT sum(least(greatest(abs(x), 0), 9)) AS a0 FROM (SELECT who, x FROM t) AS i",),
        ("outcome", "backstop", "raw error", "answer", "path", "steps"),
    ),
    Leak(
        "a sniffed type",
        sniffed_type,
        (),
        (
            "charges of others",
            "answer",
            "own contribution",
            "own charge",
            "accounts of others",
            "activity of others",
        ),
        files=True,
    ),
    Leak("charges 10 % too small", charges_too_small, (_COUNT,), ("undercharged",)),
    Leak(
        "noise 10 % too small",
        noise_too_small,
        ("SELECT k, count(*) AS a0 FROM t WHERE k BETWEEN 0 AND 4999 GROUP BY k",),
        ("noise",),
    ),
    Leak(
        "a key that only shows if present",
        key_if_present,
        ("SELECT k, count(*) AS a0 FROM t WHERE k IN (1, 2, 77) GROUP BY k",),
        ("answer",),
    ),
    Leak(
        "a cap that looks at another person",
        cap_by_another,
        (_SUM,),
        ("charges of others", "own charge", "own contribution"),
    ),
    Leak(
        "a message with a value", message_with_value, ("SELECT max(n) AS a0 FROM t",), ("wording",)
    ),
    Leak("a float in the filter", float_in_the_filter, (_COUNT,) * 3, ("overdrawn",), poor=True),
    Leak(
        "an order of addition",
        order_of_addition,
        (_SUM,),
        ("charges of others", "own charge", "undercharged"),
    ),
    Leak(
        "an expression that is not row by row",
        not_row_by_row,
        (_SUM,),
        ("charges of others", "own charge", "own contribution"),
    ),
    Leak("a factor 2 in a charge", factor_two, (_COUNT,), ("undercharged",)),
    Leak(
        "a redefined column that keeps its old bounds",
        old_bounds,
        ("SELECT sum({c}) AS a0 FROM (SELECT who, pow(x, 3) AS {c} FROM t) AS i",),
        ("a name counts",),
    ),
    Leak(
        "a scale chosen from exact counts",
        scale_of_exact_counts,
        (_COUNT, _SUM),
        ("answer", "own contribution", "own charge", "charges of others"),
        weighted=True,
    ),
    Leak(
        "a centre that was not released",
        centre_of_exact_values,
        (_MEDIAN,),
        ("answer", "own contribution", "own charge", "charges of others"),
        weighted=True,
    ),
    Leak(
        "a weight from another person's account",
        account_of_another,
        (_COUNT,) * 12,
        ("own contribution", "own charge", "charges of others", "overcharged"),
        poor=True,
        weighted=True,
    ),
    Leak(
        "a pilot skipped by looking at accounts",
        pilots_by_accounts,
        (_COUNT,) * 12,
        ("answer", "outcome"),
        poor=True,
        weighted=True,
    ),
    Leak(
        "a pilot that nobody pays", pilots_for_nothing, (_COUNT,), ("undercharged",), weighted=True
    ),
    Leak(
        "a clock that looks at accounts",
        clock_by_accounts,
        (_COUNT,) * 12,
        ("answer", "own contribution", "own charge", "charges of others"),
        poor=True,
        weighted=True,
    ),
    Leak(
        "a histogram of what is left that nobody pays",
        fading_for_nothing,
        ("SELECT count(DISTINCT who) AS a0 FROM t",) * 18,
        ("undercharged",),
        fading=True,
        weighted=True,
    ),
    Leak(
        "a move that looks at others", move_by_others, (), ("accounts of others",), life="purposes"
    ),
    Leak("a part that overdraws the whole", part_of_twice, (), ("parts",), life="purposes"),
    Leak("a tap that is not charged", tap_not_charged, (), ("undercharged",), life="series"),
    Leak(
        "a late row that is free",
        late_rows_free,
        (),
        ("undercharged", "own contribution"),
        life="series",
    ),
    Leak(
        "a row that pays from the next window",
        window_of_the_day_after,
        (),
        ("charges of others", "accounts of others", "undercharged"),
        windows="month",
    ),
    Leak(
        "a question that touches a window it does not charge",
        window_not_charged,
        (),
        ("undercharged", "own charge"),
        windows="month",
    ),
    Leak(
        "a cap for life that counts one window only",
        cap_of_one_window,
        (),
        ("undercharged",),
        windows="person",
    ),
    Leak(
        "windows that add up and pay as if they did not",
        windows_that_add_up,
        (),
        ("undercharged",),
        windows="person",
    ),
    Leak(
        "a cap for life that others share",
        life_of_another,
        (),
        (
            "charges of others",
            "accounts of others",
            "own charge",
            "own contribution",
            "activity of others",
        ),
        windows="person",
    ),
    Leak(
        "a window over other people's rows",
        window_of_others,
        (
            "SELECT count(*) AS a0 FROM (SELECT who, row_number() OVER (PARTITION BY who "
            "ORDER BY x) AS r FROM t) "
            "AS i WHERE r <= 9",
        ),
        ("charges of others", "own charge", "own contribution"),
    ),
    Leak(
        "a found key without a threshold",
        no_threshold,
        (),
        ("a key of one person", "undercharged"),
        life="keys",
    ),
    Leak(
        "a delta that counts on other people",
        delta_of_the_lonely,
        (),
        ("charges of others", "own charge", "accounts of others", "undercharged"),
        life="keys",
    ),
    Leak(
        "a row that waited is somebody else's",
        late_row_of_another,
        (),
        ("charges of others", "accounts of others", "own charge", "own contribution"),
        life="chains",
        seed=7,
    ),
    Leak(
        "a key that the last one has",
        key_of_the_last,
        (),
        ("charges of others", "accounts of others", "own charge", "own contribution"),
        life="chains",
        seed=7,
    ),
    Leak(
        "a key of several is nobody's",
        key_of_nobody,
        (),
        ("charges of others", "accounts of others", "own charge", "own contribution"),
        life="chains",
        seed=7,
    ),
    *planted_loads.PLANTED,
    *planted_books.PLANTED,
    Leak(
        "pooled pilots that are not charged",
        node_pilots_for_nothing,
        (),
        ("undercharged",),
        life="dashboards",
    ),
    Leak("a panel that reads an account", panel_by_accounts, (), ("wording",), life="dashboards"),
)
