"""Ctrl-C at every statement: memory is what the file says, or the store is closed and says so."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from sparseq.ledger._duckdb.journal import Journal
from sparseq.ledger._duckdb.request_ids import RequestIds
from sparseq.ledger.departures import Departures
from sparseq.ledger.pots import Pots
from sparseq.series.methods.forecast import Forecast
from sparseq.series.watch import ActiveWatch
from sparseq.store.curator import counts, forget
from sparseq.stream.batches import Request

ROOT = Path(sparseq.__file__).parent
TRACED = tuple(
    str(ROOT / part)
    for part in (
        "store/store.py",
        "stream",
        "reuse",
        "store/curator.py",
        "ledger",
        "series",
        *(f"engine/_duckdb/{n}.py" for n in ("storage", "people", "erasure", "scans")),
    )
)
COUNT = "SELECT count(*) AS n FROM t"
PEOPLE = 20
UNIT = 2**24
Line = tuple[str, int]


def open_new(path: Path) -> sparseq.Store:
    return sparseq.create(
        path,
        {"t": pa.table({"who": list(range(PEOPLE))})},
        user="who",
        purposes=[sparseq.Questions(in_or_out=True, counts=10_000, watch=0.25, forecast=0.25)],
    )


def answer(con: sparseq.Store, i: int) -> None:
    assert con.sql(COUNT, request_id=f"a{i}").facts.request_id == f"a{i}"


def many(con: sparseq.Store, i: int) -> None:
    asked = [
        Request(con.lower(f"{COUNT} WHERE who > -{k}"), request_id=f"m{i}.{k}") for k in (1, 2)
    ]
    again = [Request(con.lower(f"{COUNT} WHERE who > -1"), request_id="m")]
    assert [o.refused for o in con.ask_many(again + asked + again)] == [None] * 4


def ingest(con: sparseq.Store, i: int) -> None:
    con.ingest(pa.table({"who": [1000 + i]}), once=f"file {i}")


def erase(con: sparseq.Store, i: int) -> None:
    if f"to erase {i}" not in con.taken():
        con.ingest(pa.table({"who": [2000 + i]}), once=f"to erase {i}")
    forget(con, str(2000 + i))


def watch(con: sparseq.Store, i: int) -> None:
    active = ActiveWatch(con, 1000, 0.5)
    seen = active.tick(active.done + 1)
    assert active.tick(seen.tick) == seen


def kept_watch(con: sparseq.Store, i: int) -> None:
    """With one object for as long as the store is open, as the monitor has it."""
    active = kept(con, "watch", lambda: ActiveWatch(con, 1000, 0.5))
    seen = active.tick(active.done + 1)
    assert active.tick(seen.tick) == seen
    assert ActiveWatch(con, 1000, 0.5).tick(seen.tick) == seen


def forecast(con: sparseq.Store, i: int) -> None:
    series = kept(con, "forecast", lambda: forecast_of(con))
    check_ticks(con, series)


def check_ticks(con: sparseq.Store, series: Forecast) -> None:
    """The last ticks and the next are the same to an object that was never interrupted."""
    ticks = range(max(next_tick(con) - 2, 0), next_tick(con) + 1)
    told = [done_tick(series, con, number) for number in ticks]
    afresh = forecast_of(con)
    assert told == [done_tick(afresh, con, number) for number in ticks]


def kept(con: sparseq.Store, name: str, make: Callable[[], Any]) -> Any:
    objects = KEPT.setdefault(con, {})
    if name not in objects:
        objects[name] = make()
    return objects[name]


def forecast_of(con: sparseq.Store) -> Forecast:
    return Forecast(con, "visits", 1000)


def next_tick(con: sparseq.Store) -> int:
    return sum(r.pot.name == "QUERIES" for r in con.releases())


def done_tick(series: Forecast, con: sparseq.Store, number: int) -> Any:
    done = series.ask(number, con.lower(f"{COUNT} WHERE who > -{number + 1}"))
    return [done.active.rows(), done.corrected.tolist(), repr(done.forecast_error)]


KEPT: WeakKeyDictionary[sparseq.Store, dict[str, Any]] = WeakKeyDictionary()
OPERATIONS = [answer, many, ingest, erase, watch, kept_watch, forecast]


class Tracer:
    """Sees each line of the traced files as it begins."""

    def __init__(self, at: Line | None = None) -> None:
        self.seen: dict[Line, None] = {}
        self._at = at

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(TRACED):
            return None
        if event == "line":
            line = (frame.f_code.co_filename, frame.f_lineno)
            self.seen[line] = None
            if line == self._at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self

    def run(self, work: Callable[[], None]) -> None:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            work()
        finally:
            sys.settrace(before)


def lines_of(path: Path, operation: Callable[[sparseq.Store, int], None]) -> list[Line]:
    """The lines that an operation runs, in the session's first write and in a later one."""
    seen: dict[Line, None] = {}
    with open_new(path) as con:
        for i in range(2):
            tracer = Tracer()
            tracer.run(partial(operation, con, i))
            seen |= tracer.seen
    return list(seen)


def check(con: sparseq.Store) -> None:
    """What is in memory is what a fresh look at the file gives, and nobody is charged for nothing.

    Everybody has one row, which every release of the pot of queries counts.
    """
    con.stream.flush()  # as every step does first: what was charged and not yet written
    cursor = con.backend.database.cursor()
    try:
        budgets = cursor.execute("SELECT budget FROM ledger.users ORDER BY _user").fetchall()
        pots = Pots(np.array([b for (b,) in budgets], np.int64), con.reserves)
        journal, departures = Journal(cursor), Departures()
        journal.restore(pots)
        departures.add_users(len(pots))
        journal.restore_departures(departures)
        assert [p for p, _ in con.stream.pots.items()] == [p for p, _ in pots.items()]
        for pot, accounts in pots.items():
            assert con.stream.pots[pot].spent.tolist() == accounts.spent.tolist()
            assert con.stream.pots[pot].budgets.tolist() == accounts.budgets.tolist()
        assert con.stream.departures.first.tolist() == departures.first.tolist()
        assert len(con.stream.ledger) == len(journal) == len(con.releases())
        ids = [r.request_id for r in con.releases() if r.request_id]
        assert len(set(ids)) == len(ids), "one answer under each id"
        assert con.stream.ledger.requests.look_up(ids) == RequestIds(cursor).look_up(ids)
        asked = [r for r in con.releases() if r.pot.name == "QUERIES"]
        assert con.stream.accounts.spent[0] == len(asked) * UNIT
        assert counts(con).users == len(budgets)
        made = con.stream.contributions(con.explain(con.lower(COUNT)))
        assert made.measures[0].totals.tolist() == [counts(con).rows["t"]]
    finally:
        cursor.close()


def is_open(con: sparseq.Store) -> bool:
    """Use a store; where it is closed, it says so."""
    try:
        con.releases()
    except sparseq.StoreError as error:
        return not error.message.startswith("the store is closed")
    return True


def interrupt(
    folder: Path, operation: Callable[[sparseq.Store, int], None], lines: list[Line]
) -> tuple[int, int]:
    """Interrupt an operation at each line; return how often it went on, and was closed."""
    path = folder / "s.sparseq"
    con = open_new(path)
    went_on = closed = 0
    for i, line in enumerate(lines):
        if i % 5 == 0:  # so that the first write of a session is hit, too
            con.close()
            con = sparseq.connect(path)
        with contextlib.suppress(KeyboardInterrupt):
            Tracer(line).run(partial(operation, con, i))
        if is_open(con):
            went_on += 1
        else:
            con.close()
            con = sparseq.connect(path)
            closed += 1
        check(con)
        operation(con, i)
        check(con)
    con.close()
    with sparseq.connect(path) as con:
        check(con)
    assert [p.name for p in folder.glob("s.sparseq*")] == ["s.sparseq"]
    return went_on, closed


@pytest.mark.parametrize("operation", one_in(4, OPERATIONS), ids=lambda o: o.__name__)
def test_interrupted_at_some_statements(
    operation: Callable[[sparseq.Store, int], None], tmp_path: Path
) -> None:
    lines = lines_of(tmp_path / "lines.sparseq", operation)
    assert len(lines) > 50
    went_on, closed = interrupt(tmp_path, operation, lines[:: len(lines) // 8])
    assert went_on
    assert closed or operation in (erase, kept_watch)  # with all lines, some close it


@pytest.mark.deep
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o.__name__)
def test_interrupted_at_every_statement(
    operation: Callable[[sparseq.Store, int], None], tmp_path: Path
) -> None:
    lines = lines_of(tmp_path / "lines.sparseq", operation)
    went_on, closed = interrupt(tmp_path, operation, lines)
    assert went_on + closed == len(lines)
