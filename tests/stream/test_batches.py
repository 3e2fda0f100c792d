"""Many queries at once are the queries one by one: answers to the byte, spends to the unit."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from sampled import one_in

import sparseq
import sparseq.store.store
import sparseq.stream.batches
import sparseq.stream.step
from checks.stores import made_store
from sparseq.engine._duckdb.time_windows import FOREVER, Window, hulls, window
from sparseq.question.plan import Options
from sparseq.stream.batches import Request

FIRST = dt.date(2024, 1, 1)
DAYS = 12


def day(i: int) -> str:
    return f"DATE '{FIRST + dt.timedelta(i)}'"


def rows_of(seed: int, size: int) -> pa.Table:
    """Rows of 40 users, a few of whom have most; some without a time, a kind or an amount."""
    draw = random.Random(seed)
    odd: list[Any] = [None, float("nan"), float("inf"), -1e300, 0.0]
    days = [FIRST + dt.timedelta(draw.randrange(DAYS)) for _ in range(size)]
    return pa.table(
        {
            "who": [int(40 * draw.random() ** 3) for _ in range(size)],
            "day": [d if draw.random() < 0.95 else None for d in days],
            "at": [
                dt.datetime(d.year, d.month, d.day, draw.randrange(24))
                if draw.random() < 0.95
                else None
                for d in days
            ],
            "kind": pa.array([draw.choice(["a", "b", "c", None]) for _ in range(size)]),
            "amount": [
                draw.choice(odd) if draw.random() < 0.1 else draw.uniform(-5, 30)
                for _ in range(size)
            ],
        }
    )


SHAPES = [
    "SELECT count(DISTINCT who) AS n FROM t WHERE day = {0}",
    "SELECT count(*) AS n FROM t WHERE day = '{a}'",
    "SELECT count(*) AS n, sum(amount) AS s FROM t WHERE day >= {0} AND day < {1}",
    "SELECT kind, sum(amount) AS s FROM t WHERE day BETWEEN {0} AND {1} GROUP BY kind",
    "SELECT count(DISTINCT who) AS n FROM t WHERE amount > 3.5 AND day > {0}",
    "SELECT kind, count(*) AS n FROM t WHERE day <= {0} AND kind <> 'b' GROUP BY kind",
    "SELECT count(DISTINCT who) AS n FROM t WHERE at >= {0} AND at < {1}",
    "SELECT avg(amount) AS m FROM t WHERE at >= TIMESTAMP '{a} 06:00:00' AND day <> {1}",
    "SELECT histogram(amount, [0, 5, 10, 20]) AS h FROM t WHERE day = {0}",
    "SELECT count(*) AS n FROM (SELECT who, count(*) AS k FROM t WHERE day = {0} GROUP BY who) "
    "WHERE k > 1",
    "SELECT sum(amount) AS s FROM t WHERE day IN ({0}, {1})",
    "SELECT count(*) AS n FROM t AS x JOIN t AS y ON x.who = y.who WHERE x.day = {0}",
    "SELECT sum(amount * 1000) AS s FROM t WHERE day = {0} AND kind = '{a}'",
    "SELECT kind, sum(amount) AS s FROM t GROUP BY kind",
    "SELECT sum(amount / who) AS refused FROM t WHERE day = {0}",
]
KNOBS: list[dict[str, float]] = [{}, {}, {"sigma": 0.7}, {"accuracy": 40.0}, {"confidence": 0.8}]
Drawn = tuple[str, int, int, dict[str, float], str | None]


def log_of(draw: random.Random) -> list[Drawn]:
    """Queries of a few shapes, interleaved."""
    shapes = draw.sample(SHAPES, draw.choice([1, 3, 5]))
    return [
        (
            draw.choice(shapes),
            draw.randint(0, DAYS),
            draw.randint(0, 4),
            draw.choice(KNOBS),
            draw.choice([None, None, None, *"pqr"]),
        )
        for _ in range(draw.choice([40, 15, 1]))
    ]


def lowered(con: sparseq.Store, drawn: Drawn) -> Request:
    shape, start, length, knobs, request_id = drawn
    a = FIRST + dt.timedelta(start)
    return Request(
        con.lower(shape.format(day(start), day(start + length), a=a)), Options(**knobs), request_id
    )


def make(rows: pa.Table, path: Path | None = None, **more: Any) -> sparseq.Store:
    keys = {"kind": ("a", "b", "zz")}
    bounds = {"amount": (-5.0, 30.0)}
    args = {"table": "t", "user": "who", "time": "day", "seed": 5, **more}
    return made_store(path, rows, keys=keys, bounds=bounds, **args)


def one_by_one(con: sparseq.Store, asked: list[Request]) -> list[bytes | str]:
    outcomes: list[bytes | str] = []
    for one in asked:
        try:
            outcomes.append(con.ask(one.query, one.options, one.request_id, one.fresh).to_bytes())
        except sparseq.SparseqError as error:
            outcomes.append(str(error))
    return outcomes


def together(con: sparseq.Store, asked: list[Request]) -> list[bytes | str]:
    return [
        o.answer.to_bytes() if o.answer is not None else str(o.refused) for o in con.ask_many(asked)
    ]


def ledger(con: sparseq.Store) -> list[tuple[Any, ...]]:
    """All that is durable of releases and charges, but the time of day."""
    columns = "id, request_id, query, coordinates, sigma, bound, answer, users, charges, pot"
    found = con.backend.database.execute(
        f"SELECT {columns} FROM ledger.release ORDER BY id"
    ).fetchall()
    return [tuple(row) for row in found]


logs = given(
    drawn=st.integers(0, 2**32 - 1).map(random.Random).map(log_of),
    seed=st.integers(0, 10),
    norm_budget=st.sampled_from([3.0, 12.0, 400.0]),
    halt=st.booleans(),
    group=st.sampled_from([1, 3, 256]),
    arrival=st.booleans(),
)


@settings(max_examples=6)
@logs
def test_answers_charges_and_drops_are_those_of_one_by_one(**drawn: Any) -> None:
    check_log(**drawn)


@pytest.mark.deep
@settings(max_examples=100)
@logs
def test_answers_charges_and_drops_of_many_logs_are_those_of_one_by_one(**drawn: Any) -> None:
    check_log(**drawn)


def check_log(
    drawn: list[Drawn], seed: int, norm_budget: float, halt: bool, group: int, arrival: bool
) -> None:
    rows = rows_of(seed, 300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparseq.stream.batches, "GROUP", group)
        one, many = (make(rows, norm_budget=norm_budget, halt=halt) for _ in range(2))
        for con in (one, many) if arrival else ():
            con.ingest(rows_of(seed + 100, 60))  # a second run, in no order with the first
        asked = [lowered(one, d) for d in drawn]
        assert together(many, asked) == one_by_one(one, asked)
        assert ledger(many) == ledger(one)
        assert many.stream.accounts.spent.tolist() == one.stream.accounts.spent.tolist()
        assert not many.stream._staged
        spent = one.stream.accounts.spent
        event(
            f"somebody is at the limit: {bool(np.any(spent + 2**24 > one.stream.accounts.budgets))}"
        )
        event(f"read ahead: {bool(many.stream.engine._ahead._scans)}")


def test_what_was_read_ahead_is_used_and_forgotten_when_rows_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    con = make(rows_of(1, 500))
    asked = [lowered(con, (SHAPES[i % 2], i // 2 % DAYS, 0, {}, None)) for i in range(60)]
    fetched = []
    fetch = con.stream.engine._reader.fetch

    def noted(sql: str) -> Any:  # the parents of pilots are read from the other copy
        fetched.extend([sql] if "by_time" in sql else [])
        return fetch(sql)

    monkeypatch.setattr(con.stream.engine._reader, "fetch", noted)
    assert len(list(con.ask_many(asked))) == 60
    assert len(fetched) == 2, "one scan a shape"
    con.ingest(rows_of(2, 50))
    con.ask(asked[0].query)
    assert len(fetched) == 3


@pytest.mark.parametrize("error", one_in(2, [MemoryError(), KeyboardInterrupt()]), ids=repr)
def test_what_was_gated_before_a_failure_is_durable_and_the_rest_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    rows = rows_of(3, 300)
    con = make(rows, tmp_path / "s")
    asked = [lowered(con, (SHAPES[0], i % DAYS, 0, {}, f"id {i}")) for i in range(20)]
    render, calls = sparseq.stream.step.render, iter(range(100))

    def failing(*args: Any) -> pa.Table:
        if next(calls) == 7:
            raise error
        return render(*args)

    with monkeypatch.context() as patch:
        patch.setattr(sparseq.stream.step, "render", failing)
        with pytest.raises(type(error)):
            list(con.ask_many(asked))
    assert len(con.releases()) == 7
    with make(rows) as other:
        expected = one_by_one(other, asked)
        assert together(con, asked) == expected, "goes on where it stopped"
        spent = other.stream.accounts.spent.tolist()
    assert con.stream.accounts.spent.tolist() == spent
    con.close()
    with sparseq.connect(tmp_path / "s") as con:
        assert con.stream.accounts.spent.tolist() == spent
        assert [r.request_id for r in con.releases()] == [f"id {i}" for i in range(20)]


def test_a_transaction_that_fails_leaves_nothing_and_abandons_the_store(tmp_path: Path) -> None:
    con = make(rows_of(3, 300), tmp_path / "s")
    asked = [lowered(con, (SHAPES[0], i % DAYS, 0, {}, None)) for i in range(10)]
    con.ask(asked[0].query)
    con.backend.database.execute("DROP TABLE ledger.release_1")
    with pytest.raises(Exception, match="release"):
        list(con.ask_many(asked[1:]))
    with pytest.raises(sparseq.StoreError, match="closed"):
        con.ask(asked[0].query)


def test_an_answer_leaves_after_its_transaction(tmp_path: Path) -> None:
    con = make(rows_of(3, 300), tmp_path / "s")
    asked = [lowered(con, (SHAPES[0], i % DAYS, 0, {}, None)) for i in range(10)]
    outcomes: Iterator[Any] = con.ask_many(asked)
    next(outcomes)
    ((durable,),) = con.backend.database.execute("SELECT count(*) FROM ledger.release").fetchall()
    assert durable == 10


# Windows ------------------------------------------------------------------------------------------


MILLION = 1_000_000


@pytest.mark.parametrize(
    ("where", "expected"),
    one_in(
        2,
        [
            ("d = DATE '1970-01-03'", ("", 2, 3)),
            ("d = '1970-01-03' AND x = 'a'", ("x", 2, 3)),
            ("d > '1970-01-03'", ("", 3, FOREVER)),
            ("d BETWEEN '1970-01-03' AND '1970-01-05'", ("", 2, 5)),
            ("d < '1970-01-03' AND d >= '1970-01-02'", ("", 1, 2)),
            ("d < '1970-01-03' AND d >= '1970-01-09'", ("", 8, 8)),
            ("s <= '1970-01-01 00:00:01'", ("", -FOREVER, MILLION + 1)),
            ("d = TIMESTAMP '1970-01-03'", ("", 2, 3)),
            ("d <= TIMESTAMP '1970-01-03 12:00:00'", ("", -FOREVER, 3)),
            ("date_trunc('month', d) = '1970-01-01'", ("", 0, 31)),
            ("date_trunc('month', s) < '1970-01-15'", ("", -FOREVER, 31 * 86_400 * MILLION)),
            ("NOT (year(d) > 1970.5)", ("", -FOREVER, 365)),
            ("d >= '0001-01-01' AND d <= '9999-12-31'", ("", -FOREVER, FOREVER)),
            ("d = '1970-01-03' AND s = '1970-01-03'", ("s", 2, 3)),
            # everything else is left to DuckDB
            ("x = '1970-01-03'", None),
            ("x = ' AND (\"t\".\"d\" = ''1970-01-03'')'", None),
            ("d = '1970-01-03' OR x = 'a'", None),
            ("d <> '1970-01-03'", None),
            ("d < '1970-01-03' OR d IS NULL", None),
            ("d < s", None),
            ("month(d) = 3", None),
            ("d < NULL", None),
        ],
    ),
)
def test_a_condition_is_a_window_where_it_is_surely_one(
    where: str, expected: tuple[str, int, int] | None
) -> None:
    day, at = dt.date(1970, 1, 1), dt.datetime(1970, 1, 1)
    rows = pa.table({"who": [1], "d": [day], "s": [at], "x": ["a"]})
    with sparseq.create(None, {"t": rows}, user="who", keys={"x": ["a"]}) as con:
        relation = con.lower(f"SELECT count(*) AS n FROM t WHERE {where}").relation
    found = window(relation.conditions)
    if expected is None or found is None:
        assert found is None
        assert expected is None
        return
    assert expected[1:] == (found.low, found.high)
    assert bool(found.rest) == bool(expected[0])
    assert expected[0] in found.rest


def test_windows_far_apart_are_read_apart() -> None:
    def at(n: int) -> Window:
        return Window("d", "DATE", "", n, n + 1)

    parts = hulls([at(n) for n in (0, 10_000, 2, 10_001, 1, 50)])
    assert [[w.low for w in part] for part in parts] == [[0, 1, 2], [50], [10_000, 10_001]]


@pytest.mark.parametrize("many", [False, True])
def test_what_an_interrupt_left_is_written_before_the_next(tmp_path: Path, many: bool) -> None:
    """Asked again, an id gives the answer that was made before the interrupt, if one was."""
    rows = pa.table({"who": [1, 2]})
    con = sparseq.create(tmp_path / "s.sparseq", {"t": rows}, user="who")
    query, flush = con.lower("SELECT count(*) AS n FROM t"), con.stream.flush

    def ask() -> None:
        if many:
            list(con.ask_many([Request(query, request_id="one")]))
        else:
            con.ask(query, request_id="one")

    def interrupted() -> None:
        if con.stream._staged:
            raise KeyboardInterrupt
        flush()

    con.stream.flush = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        ask()
    con.stream.flush = flush  # type: ignore[method-assign]
    ask()
    assert [r.request_id for r in con.releases()] == ["one"]
    con.stream.flush = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        con.ask(query, request_id="two")
    con.stream.flush = flush  # type: ignore[method-assign]
    con.close()
    with sparseq.connect(tmp_path / "s.sparseq") as again:
        assert [r.request_id for r in again.releases()] == ["one", "two"]
