"""Answers and accounts are the same from kept columns as from rows that DuckDB reads."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparseq
import sparseq.compiled
from checks.stores import made_store
from sparseq.engine._duckdb import engine as duck
from sparseq.engine._duckdb import kept_rows, wanted_columns
from sparseq.engine._duckdb.engine import DuckEngine
from sparseq.engine._duckdb.kept_rows import KeptRows
from sparseq.engine._duckdb.row_ids import OrderError, RowIds
from sparseq.engine.contributions import RowBatch
from sparseq.engine.row_mask import RowMask, words_of, words_within
from sparseq.load._duckdb.storage import MAX_RUNS
from sparseq.question.plan import Plan
from sparseq.store import curator

PEOPLE = 60
FIRST = dt.date(2024, 1, 1)
NUMBERS = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e308, 2.5, -3.0]
WHOLE = [None, -(2**63), -(2**63) + 1, 2**63 - 1, 0, -1, 7]
CONDITIONS = [
    "x > {c}",
    "x >= 2.5",
    "x < {c}",
    "x <= -3",
    "x <> 0",
    "x = -0.0",
    "NOT (x > {c})",
    "x BETWEEN -1 AND {c}",
    "x IN (2.5, -3.0, 0)",
    "x IS NULL",
    "x IS NOT NULL",
    "x > 1e308",
    "x >= 'infinity'::DOUBLE",
    "x > 'infinity'::DOUBLE",
    "x = 'nan'::DOUBLE",
    "x < -1e308",
    "n > {d}",
    "n = -9223372036854775807",
    "n >= -9223372036854775807",
    "n <> 7",
    "n IN (0, -1)",
    "NOT (n < 3)",
    "k >= 2",
    "k = {d} % 5",
    "k <> 3",
    "k BETWEEN 1 AND 3",
    "k IS NULL",
    "day > DATE '2024-02-{e}'",
    "day <> DATE '2024-03-{e}'",
    "day IS NULL",
    "day BETWEEN DATE '2024-01-{e}' AND DATE '2024-04-{e}'",
    "date_trunc('month', day) > DATE '2024-02-01'",
    "month(day) <> 2",
    "at < TIMESTAMP '2024-03-{e} 12:00:00'",
    "at::DATE > DATE '2024-02-{e}'",
    "kind = 'a'",
    "kind LIKE '%b%'",
    "kind <> 'c'",
    "kind IS NULL",
    "x + k > {c}",
    "(x > 1 OR k < 2)",
    "(x > 1 OR x < -1)",
    "x > k",
    "true",
    "NOT flag",
    "flag",
]
MEASURES = [
    "count(*) AS a",
    "count(DISTINCT who) AS a",
    "sum(least(greatest(x, -5), {c})) AS a",
    "avg(least(greatest(x, 0), 5)) AS a",
    "count(x) AS a",
    "sum(k) AS a",
    "sum(bounded) AS a",
    "avg(bounded) AS a",
    "median(x, [-5, 0, 1, 3, 9]) AS a",
    "countif(x > {c}) AS a",
    "histogram(bounded, [0, 2, 4, 9]) AS a",
    "count(*) AS a, sum(bounded) AS b",
    "count(*) AS a, count(DISTINCT who) AS b, avg(bounded) AS c",
    "var_samp(bounded) AS a",
    "sum(bounded - 1.5) AS a",
    "countif(kind = 'a') AS a",
]
KEYS = [
    "",
    "",
    "kind",
    "k",
    "kind, k",
    "dayofweek(day)",
    "month(day)",
    "CASE WHEN bounded < {c} THEN 'low' WHEN k < 3 THEN 'mid' ELSE 'high' END",
    "flag",
]


def rows(seed: int, count: int, people: int = PEOPLE) -> pa.Table:
    """Rows with NULL, NaN and extremes; everybody has one."""
    draw = random.Random(seed)
    whose = [*range(people), *(draw.randrange(people) // 2 for _ in range(count - people))]
    draw.shuffle(whose)
    made = [
        {
            "who": who,
            "day": draw.choice([None, *[FIRST + dt.timedelta(draw.randrange(150))] * 9]),
            "at": dt.datetime(2024, 1, 1) + dt.timedelta(hours=draw.randrange(3600)),
            "x": draw.choice([*NUMBERS, *(draw.uniform(-9, 9) for _ in range(9))]),
            "n": draw.choice([*WHOLE, draw.randrange(-9, 9)]),
            "k": draw.choice([None, 0, 1, 2, 3, 4, 5]),
            "kind": draw.choice([None, "a", "b", "bb", "c", "other"]),
            "bounded": draw.choice([None, 0.0, 9.0, draw.uniform(0, 9)]),
            "flag": draw.choice([None, True, False]),
        }
        for who in whose
    ]
    fields = {
        "who": pa.int64(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "x": pa.float64(),
        "n": pa.int64(),
        "k": pa.int16(),
        "kind": pa.string(),
        "bounded": pa.float64(),
        "flag": pa.bool_(),
    }
    return pa.Table.from_pylist(made, pa.schema(fields))


def store(weighted: bool) -> sparseq.Store:
    """Return a store of some rows; the same noise every time."""
    return made_store(
        None,
        rows(1, 500),
        table="t",
        user="who",
        time="day",
        seed=5,
        kappa=64.0,
        keys={"kind": ["a", "b", "bb", "c"], "k": [0, 1, 2, 3, 4]},
        bounds={"bounded": (0, 9), "x": (-9, 9), "k": (0, 9)},
        public={"sorts": SORTS},
        in_or_out=not weighted,
        norm_budget=2.0**20,
    )


def questions(seed: int, count: int) -> Iterator[str]:
    """Yield questions; each condition, measure and key is in some."""
    draw = random.Random(seed)
    for i in range(count):
        where = draw.sample(CONDITIONS, draw.choice((0, 1, 1, 2, 3)))
        where += [CONDITIONS[i % len(CONDITIONS)]] if i % 2 else []
        key = draw.choice(KEYS)
        listed = f"{key}, " if key else ""
        origin = "t"
        if i % 5 == 3:  # rows whose kind is not in the public table count for nothing
            origin = "t JOIN sorts ON sorts.of_kind = t.kind"
            key = draw.choice(["sort", key])
            listed = f"{key}, " if key else ""
            where += draw.choice([[], ["sort <> 'vowel'"], ["weight > k"]])
        text = f"SELECT {listed}{draw.choice(MEASURES)} FROM {origin}"
        text += f" WHERE {' AND '.join(where)}" if where else ""
        text += f" GROUP BY {key}" if key else ""
        yield text.format(c=draw.uniform(-3, 6), d=draw.randrange(-5, 9), e=draw.randrange(10, 28))


SORTS = pa.table(
    {
        "of_kind": ["a", "b", "bb", "z"],
        "sort": ["vowel", "consonant", "consonant", "consonant"],
        "weight": [1.0, 2.0, None, 9.0],
    }
)


def told(con: sparseq.Store, sql: str) -> Any:
    """Return an answer, or the error."""
    try:
        return con.sql(sql, fresh=True).arrow().to_pydict()
    except sparseq.SparseqError as error:
        return str(error)


def spent(con: sparseq.Store) -> list[int]:
    return con.stream.accounts.spent.tolist()


def change(con: sparseq.Store, what: str) -> None:
    """Change the rows."""
    if what == "ingest":
        con.ingest(rows(2, 120, PEOPLE + 5), "t")
    if what == "erasure":
        curator.forget(con, 7, 31)
    if what == "compaction":
        for i in range(MAX_RUNS):
            con.ingest(rows(10 + i, 70), "t")


WAYS = {
    "kept": {},
    "limited memory": {(duck, "MOST_KEPT"): 60_000},
    "in ranges": {(duck, "VALUE_BYTES"): 1 << 50, (duck, "LEAST_SLICE"): 64},
    "without Numba": {(sparseq.compiled, "COLD"): 1 << 60, (sparseq.compiled, "WARM"): 1 << 60},
}


class Counted(KeptRows):
    """Counts which plans were read from kept columns."""

    kept = read = 0

    def batch(self, *args: Any) -> RowBatch | None:
        found = super().batch(*args)
        Counted.kept += found is not None
        Counted.read += found is None
        return found


def asked(
    monkeypatch: pytest.MonkeyPatch, settings: dict[Any, int], count: int, weighted: bool
) -> list[Any]:
    """Return what a store answers to questions, each twice, between changes of its rows."""
    found: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(duck, "KeptRows", Counted)
        for (place, name), value in settings.items():
            patch.setattr(place, name, value)
        con = store(weighted)
        for what in ("nothing", "ingest", "erasure", "compaction"):
            change(con, what)
            for sql in questions(len(found), count):
                found += [told(con, sql), told(con, sql.replace("AS a", "AS aa"))]
            found.append(spent(con))
        con.close()
    return found


@pytest.mark.parametrize(
    ("way", "weighted", "count"),
    [
        ("kept", False, 2),
        *(pytest.param(*one, 70, marks=pytest.mark.deep) for one in product(WAYS, (False, True))),
    ],
)
def test_answers_and_accounts_are_the_same(
    monkeypatch: pytest.MonkeyPatch, way: str, weighted: bool, count: int
) -> None:
    """The deep ones ask 1,680 questions, each twice."""
    never, always = (kept_rows, "LEAST_ROWS"), {(kept_rows, "LEAST_ROWS"): 1}
    expected = asked(monkeypatch, WAYS[way] | {never: 1 << 60}, count, weighted)
    Counted.kept = Counted.read = 0
    assert asked(monkeypatch, WAYS[way] | always, count, weighted) == expected
    answered = [one for one in expected if isinstance(one, dict)]
    assert len(answered) > len(expected) * 0.6
    assert Counted.kept > len(answered) * (0.1 if way == "limited memory" else 0.3)
    assert Counted.read > 0


@pytest.mark.parametrize("where", ["", " WHERE x > -5", " WHERE day = DATE '2024-02-03'"])
def test_rows_that_do_not_fit_are_read_in_ranges_of_users(
    con: sparseq.Store, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    engine: Any = con.stream.engine
    asked = plan(con, f"SELECT kind, count(*) AS n, sum(bounded) AS s FROM t{where} GROUP BY kind")
    whole = [(m.norms.tolist(), m.totals.tolist()) for m in engine._made(asked, PEOPLE).measures]
    monkeypatch.setattr(kept_rows, "LEAST_ROWS", 1 << 60)
    monkeypatch.setattr(duck, "VALUE_BYTES", 1 << 50)
    read, right = list[int](), engine._reader.fetch
    monkeypatch.setattr(
        engine._reader, "fetch", lambda sql: read.append(len(right(sql)[0])) or right(sql)
    )
    for least in (1 << 20, 40, 2):
        monkeypatch.setattr(duck, "LEAST_SLICE", least)
        read.clear()
        made = engine._made(asked, PEOPLE).measures
        assert [(m.norms.tolist(), m.totals.tolist()) for m in made] == whole
        assert len(read) > 1 if least < 100 and "day" not in where else len(read) >= 1
        assert max(read) <= max(2 * least + 1, 40)


def batch(con: sparseq.Store, sql: str) -> RowBatch | None:
    """Return the rows of a question, once nothing is new about it."""
    engine: Any = con.stream.engine
    found = None
    for _ in range(2):
        found = engine._kept_batch(plan(con, sql))
    return found


def plan(con: sparseq.Store, sql: str) -> Plan:
    from sparseq.question.plan import Options, calibrate

    return calibrate(con.lower(sql), con.guarantee, Options(scale=1.0))


@pytest.fixture
def con(monkeypatch: pytest.MonkeyPatch) -> Iterator[sparseq.Store]:
    monkeypatch.setattr(kept_rows, "LEAST_ROWS", 1)
    with store(weighted=True) as made:
        yield made


@pytest.mark.parametrize("what", ["count(*)", "count(DISTINCT who)", "sum(bounded)"])
@pytest.mark.parametrize("where", ["", " WHERE x > 1", " WHERE sort <> 'vowel' AND k > 1"])
def test_rows_that_are_joined_to_a_public_table_are_kept(
    con: sparseq.Store, where: str, what: str
) -> None:
    engine: Any = con.stream.engine
    joined = f"FROM t JOIN sorts ON sorts.of_kind = t.kind{where} GROUP BY sort"
    for sql in (f"SELECT sort, {what} AS n {joined}", f"SELECT {what} AS n FROM t"):
        asked = plan(con, sql)
        (expected,) = engine._made(asked, PEOPLE).measures  # DuckDB reads what is asked first
        assert batch(con, sql) is not None
        (found,) = engine._made(asked, PEOPLE).measures
        assert found.totals.tolist() == expected.totals.tolist()
        assert found.norms.tolist() == expected.norms.tolist()
        assert found.users.tolist() == expected.users.tolist()


def test_a_first_question_about_a_column_is_read_by_duckdb(con: sparseq.Store) -> None:
    engine: Any = con.stream.engine
    one, other = (plan(con, f"SELECT count(*) AS n FROM t WHERE {c}") for c in ("x > 1", "n > 1"))
    kept = [engine._kept_batch(p) is not None for p in (one, one, other, one, other)]
    assert kept == [False, True, False, True, True]


def test_what_is_kept_is_not_read_again(
    con: sparseq.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = con.stream.engine
    for c in range(2):
        batch(con, f"SELECT kind, sum(bounded) AS s FROM t WHERE x > {c} AND k > 1 GROUP BY kind")
    monkeypatch.setattr(engine._kept, "_reader", None)
    assert batch(con, "SELECT kind, sum(bounded) AS s FROM t WHERE x > 7 AND k > 3 GROUP BY kind")


@pytest.mark.parametrize("what", ["ingest", "erasure", "compaction"])
def test_nothing_is_kept_when_rows_have_changed(con: sparseq.Store, what: str) -> None:
    engine: Any = con.stream.engine
    assert batch(con, "SELECT sum(bounded) AS s FROM t WHERE x > 1") is not None
    assert engine._kept._kept.bytes > 0
    assert engine._kept._masks.bytes > 0
    change(con, what)
    assert engine._kept._kept.bytes == engine._kept._masks.bytes == 0


def test_rows_in_another_order_are_noticed(
    con: sparseq.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = con.stream.engine
    batch(con, "SELECT count(*) AS s FROM t WHERE x > 1")
    right = engine._reader.fetch
    monkeypatch.setattr(
        engine._kept._reader, "fetch", lambda sql: [c.take(_other_order(c)) for c in right(sql)]
    )
    later = plan(con, "SELECT sum(bounded) AS s FROM t")
    assert engine._kept.batch(later, engine._rows) is None
    with pytest.raises(OrderError):
        engine._kept.batch(later, engine._rows)


def _other_order(column: Any) -> Any:
    return pa.array([1, 0, *range(2, len(column))])


def test_the_connection_keeps_the_order_of_rows(con: sparseq.Store) -> None:
    engine: Any = con.stream.engine
    ((kept,),) = engine._con.sql("SELECT current_setting('preserve_insertion_order')").fetchall()
    assert kept is True


@pytest.mark.parametrize("seed", range(6))
def test_row_identifiers_with_gaps_are_found_again(seed: int) -> None:
    draw = np.random.default_rng(seed)
    ids = np.flatnonzero(draw.random(300) < (1 if seed == 0 else 0.7)).astype(np.int64) + 5
    known = RowIds.of(pa.chunked_array([ids[:40], ids[40:]]))
    known.compare(pa.chunked_array([ids]))
    order = draw.permutation(len(ids))
    assert known.places(pa.chunked_array([ids[order]])).tolist() == order.tolist()
    for other in (ids[:-1], np.append(ids[:-1], ids[-1] + 1), np.append(ids[1:], ids[1])):
        with pytest.raises(OrderError):
            known.compare(pa.chunked_array([other]))
        with pytest.raises(OrderError):
            known.places(pa.chunked_array([other]))
    with pytest.raises(OrderError):
        RowIds.of(pa.chunked_array([ids[::-1].copy()]))


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_bits_count_as_truths_do(
    monkeypatch: pytest.MonkeyPatch, loops: bool, share: float
) -> None:
    for name in ("COLD", "WARM"):
        monkeypatch.setattr(sparseq.compiled, name, 1 if loops else 1 << 60)
    draw = np.random.default_rng(4)
    for size in (0, 1, 63, 64, 65, 1000):
        truths = draw.random(size) < share
        mask = RowMask(words_of(truths))
        cuts = np.sort(draw.integers(0, size + 1, 40))
        first, stop = cuts[:-1], cuts[1:]
        expected = [int(truths[a:b].sum()) for a, b in zip(first, stop, strict=True)]
        assert mask.counts(first, stop).tolist() == expected
        assert mask.of(np.arange(size)).tolist() == truths.tolist()


@pytest.mark.parametrize("loops", [True, False])
def test_a_nan_is_told_from_what_is_missing(monkeypatch: pytest.MonkeyPatch, loops: bool) -> None:
    for name in ("COLD", "WARM"):
        monkeypatch.setattr(sparseq.compiled, name, 1 if loops else 1 << 60)
    parts = [1.0, None, math.nan, 3.0, -math.nan], [None]
    read = pa.chunked_array([pa.array(some, pa.float64()) for some in parts])
    values = wanted_columns._numbers(read)
    for nan, expected in ((0, 0b001001), (wanted_columns.NAN, 0b011101)):
        words = words_within(values, [(np.float64(1), np.float64(9))], np.float64(np.nan), nan)
        assert words.tolist() == [expected]


def test_nothing_is_kept_beside_the_stream(con: sparseq.Store) -> None:
    engine: Any = con.stream.engine
    beside: Any = engine.beside()
    inner: DuckEngine = beside._engine
    assert inner._kept.batch(plan(con, "SELECT count(*) AS n FROM t"), inner._rows) is None
    beside.close()
