"""What is shown of a store before anything is charged is the same with and without one user."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

import sparseq
import sparseq.engine._duckdb.engine
import sparseq.load._duckdb.storage
import sparseq.load.file_sources
from sparseq.load import held_rows

DAY = dt.date(2024, 1, 1)
OTHERS = 500


def texts_of(rows: list[tuple[int, str]], timed: bool) -> pa.Table:
    """Return a table of users and texts, with a day or without."""
    day = {"day": pa.array([DAY] * len(rows), pa.date32())} if timed else {}
    return pa.table({"who": [who for who, _ in rows], **day, "s": [text for _, text in rows]})


@pytest.mark.parametrize("place", ["file", "lake"])
@pytest.mark.parametrize("timed", [True, False], ids=["day", "no day"])
def test_the_rows_that_are_kept_of_a_user_do_not_depend_on_texts_of_others(
    timed: bool, place: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With codes for texts, the order was that in which anybody had brought them."""
    found = []
    for there in (False, True):
        folder = tmp_path_factory.mktemp("store")
        path = f"lake://{folder}/lake" if place == "lake" else folder / "s.sparseq"
        first = [(10_000, "m"), *([(9, "z")] if there else [])]
        con = sparseq.create(
            path,
            {"t": texts_of(first, timed)},
            user="who",
            most={"rows": 1},
            **({"buckets": 1} if place == "lake" else {"seed": 1}),
        )
        with con:
            more = [(k, text) for k in range(100, 600) for text in "za"]
            con.ingest(texts_of(more, timed), again=True)
            rows = [con.sql(f"SELECT count(*) AS n FROM t WHERE s = '{s}'").rows() for s in "az"]
        found.append([row["n"] for (row,) in rows])
    for numbers in found:
        assert abs(numbers[0] - OTHERS) < OTHERS / 4, numbers
        assert abs(numbers[1]) < OTHERS / 4, numbers


@pytest.mark.parametrize("timed", [True, False], ids=["held", "staged"])
def test_a_text_that_nobody_else_has_changes_nothing_that_is_shown(
    timed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One user has the 10,001st text of a column: it was no longer coded, and lowered otherwise."""
    if not timed:
        monkeypatch.setattr("sparseq.store._duckdb.create_file.held_bytes", lambda: 0)
    count = held_rows.DICTIONARY_LIMIT
    public = pa.table({"label": [f"page {i}" for i in range(50)], "section": ["s1", "s2"] * 25})
    plain = "SELECT count(*) AS n FROM t WHERE s = 'page 7'"
    joined = "SELECT count(*) AS n FROM t JOIN m ON t.s = m.label WHERE m.section = 's1'"
    found = []
    for more in (0, 1):
        rows = [(i, f"page {i}") for i in range(count + more)]
        con = sparseq.create(
            None, {"t": texts_of(rows, False)}, user="who", public={"m": public}, seed=1
        )
        with con:
            shown = [str(con.catalog), str(con.explain(plain)), str(con.explain(joined))]
            answer = con.sql(joined)
            shown += [str(answer.facts.sigma), str(con.budget()), str(con.course_facts())]
            others = con.stream.accounts.spent[:count].tolist()
        found.append((shown, others))
    assert found[0] == found[1]


COLUMNS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any], Any]] = {
    "s": (pa.string(), lambda r: f"text {r.randrange(12)}", "only theirs"),
    "k": (pa.string(), lambda r: r.choice("abc"), "zz"),
    "n": (pa.int64(), lambda r: r.randrange(100), 2**62),
    "x": (pa.float64(), lambda r: r.random() * 10, float("nan")),
    "ok": (pa.bool_(), lambda r: r.random() < 0.5, None),
    "day": (pa.date32(), lambda r: DAY + dt.timedelta(r.randrange(30)), dt.date(1999, 1, 1)),
    "at": (
        pa.timestamp("us"),
        lambda r: dt.datetime(2024, 1, 1) + dt.timedelta(seconds=r.randrange(10**6)),
        dt.datetime(2099, 1, 1),
    ),
}
"""Of each column its type, a value of somebody, and one that nobody but one user has."""
WHERES = [
    "",
    "WHERE s = 'text 3'",
    "WHERE k IN ('a', 'b')",
    "WHERE n BETWEEN 3 AND 40",
    "WHERE x > 5",
    "WHERE day = DATE '2024-01-03'",
    "WHERE day BETWEEN DATE '2024-01-01' AND DATE '2024-03-03'",
    "WHERE at >= TIMESTAMP '2024-01-02'",
    "WHERE ok",
    "WHERE s LIKE 'text%'",
    "WHERE s IS NULL OR n = 3",
    "WHERE length(s) > 6",
]
ASKED = [
    "SELECT count(*) AS v FROM t {}",
    "SELECT count(DISTINCT who) AS v FROM t {}",
    "SELECT sum(n) AS v FROM t {}",
    "SELECT avg(x) AS v FROM t {}",
    "SELECT k, count(*) FROM t {} GROUP BY k",
    "SELECT ok, count(*) AS v FROM t {} GROUP BY ok",
    "SELECT median(n) AS v FROM t {}",
    "SELECT section, count(*) AS v FROM t JOIN m ON t.s = m.label {} GROUP BY section",
    "SELECT k, section, sum(x) AS v FROM t LEFT JOIN m ON t.s = m.label {} GROUP BY k, section",
    "SELECT count(*) AS v FROM (SELECT who, max(n) AS a, min(s) AS b FROM t {} GROUP BY who)",
    "SELECT count(*) AS v FROM (SELECT who, row_number() OVER (PARTITION BY who ORDER BY s) AS i "
    "FROM t {}) WHERE i = 1",
    "SELECT day, count(*) AS v FROM t {} GROUP BY day",
    "SELECT s, count(*) AS v FROM t {} GROUP BY s",
    "SELECT min(n) AS v FROM t {}",
    "SELECT n, count(*) FROM t {} GROUP BY n",
    "SELECT nothing FROM t {}",
    "SELECT s FROM t {}",
]
QUESTIONS = [question.format(where) for question in ASKED for where in WHERES]
PUBLIC = pa.table({"label": [f"text {i}" for i in range(8)], "section": ["p", "q"] * 4})


@dataclass(frozen=True)
class Neighbours:
    """How two neighbouring stores are made: rows of others in two loads, and rows of one user."""

    others: tuple[list[dict[str, Any]], list[dict[str, Any]]]
    theirs: tuple[list[dict[str, Any]], list[dict[str, Any]]]
    columns: list[str]
    options: dict[str, Any]
    kind: str

    @classmethod
    def drawn(cls, rng: random.Random) -> Neighbours:
        """Return a way to make them."""
        columns = [name for name in COLUMNS if rng.random() < 0.8]

        def row(who: int, odd: bool) -> dict[str, Any]:
            made = {c: COLUMNS[c][2 if odd and rng.random() < 0.7 else 1] for c in columns}
            return {"who": who} | {c: v(rng) if callable(v) else v for c, v in made.items()}

        count, many = rng.randrange(1, 80), rng.choice([1, 3, 60])
        others = [row(rng.randrange(count), False) for _ in range(2 * count)]
        theirs = [row(10**6, True) for _ in range(many)]
        cut, first = rng.randrange(1, 2 * count), rng.choice([0, many, many])
        times = [c for c in ("day", "at") if c in columns]
        options: dict[str, Any] = {"bounds": {"n": (0, 50)} if "n" in columns else {}}
        options["keys"] = {"k": ["a", "b"]} if "k" in columns and rng.random() < 0.5 else {}
        options["most"] = {"rows": rng.choice([1, 2, 50])} if rng.random() < 0.4 else {}
        options["time"] = rng.choice(["", *times])
        both = (others[:cut], others[cut:])
        kind = rng.choice(["table", "csv", "parquet", "lake"])
        return cls(both, (theirs[:first], theirs[first:]), columns, options, kind)

    def rows(self, load: int, there: bool, folder: Path) -> Any:
        """Return what is loaded, with the user's rows or without."""
        rows = [*self.others[load], *(self.theirs[load] if there else [])]
        kinds = [("who", pa.int64()), *((c, COLUMNS[c][0]) for c in self.columns)]
        table = pa.Table.from_pylist(rows, pa.schema(kinds))
        if self.kind == "csv":
            write_csv(table, folder / f"{load}.csv")
            return folder / f"{load}.csv"
        if self.kind == "parquet":
            pq.write_table(table, folder / f"{load}.parquet")
            return folder / f"{load}.parquet"
        return table

    def shown(self, there: bool, folder: Path, asked: list[str]) -> list[str]:
        """Return all that is shown of a store before anything is charged."""
        folder.mkdir()
        lake, found = self.kind == "lake", list[str]()
        sql = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN"}
        sql |= {pa.string(): "VARCHAR", pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP"}
        types = {c: sql[COLUMNS[c][0]] for c in self.columns} if self.kind == "csv" else {}
        con = sparseq.create(
            f"lake://{folder}/lake" if lake else None,
            {"t": self.rows(0, there, folder)},
            user="who",
            public={"m": PUBLIC},
            types=types,
            **({"buckets": 2} if lake else {"seed": 1}),
            **{k: v for k, v in self.options.items() if not (lake and k == "time")},
        )
        with con:
            for load in (0, 1):
                if load:
                    con.ingest(self.rows(1, there, folder), "t", again=True)
                settings = {k: v for k, v in con.backend.settings.items() if k != "store"}
                found += [str(con.catalog), json.dumps(con.catalog.to_dict()), str(settings)]
                found += [str(con.budget()), str(con.course_facts()), str(con.releases())]
                found += [said_of(con, question) for question in asked]
        return found


def said_of(con: sparseq.Store, question: str) -> str:
    """Return what is shown of a question, or why it is refused."""
    try:
        return str(con.explain(question))
    except sparseq.SparseqError as error:
        return f"{type(error).__name__}: {error} {getattr(error, 'hint', '')}"


LIMITS = [
    (held_rows, "DICTIONARY_LIMIT", 3),
    (sparseq.engine._duckdb.engine, "SLICE_ROWS", 20),
    (sparseq.engine._duckdb.engine, "JOINED_ROWS", 20),
    (sparseq.load._duckdb.storage, "MAX_RUNS", 1),
    (sparseq.load.file_sources, "ROWS", 16),
]
"""What a table has to cross to go another way, low enough for one user to cross it."""


def differences(seed: int, folder: Path, asked: int, patch: pytest.MonkeyPatch) -> list[str]:
    """Return what differs between two neighbouring stores."""
    rng = random.Random(seed)
    for place, name, value in LIMITS:
        if rng.random() < 0.7:
            patch.setattr(place, name, value)
    if rng.random() < 0.3:
        for module in ("create_file", "file_backend"):
            patch.setattr(f"sparseq.store._duckdb.{module}.held_bytes", lambda: 2_000)
    way, questions = Neighbours.drawn(rng), rng.sample(QUESTIONS, asked)
    without, with_them = (way.shown(t, folder / str(t), questions) for t in (False, True))
    assert len(without) == len(with_them)
    return [f"{seed}: {a}\n{b}" for a, b in zip(without, with_them, strict=True) if a != b]


@pytest.mark.parametrize("seed", range(2))
def test_neighbouring_stores_show_the_same(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert differences(seed, tmp_path, 5, monkeypatch) == []


@pytest.mark.deep
@pytest.mark.parametrize("first", range(1000, 1500, 10))
def test_many_neighbouring_stores_show_the_same(first: int, tmp_path: Path) -> None:
    """500 pairs, ten in each test; the first pair of each fifth test is asked all questions."""
    found = []
    for seed in range(first, first + 10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            found += differences(seed, folder, 12 if seed % 50 else len(QUESTIONS), patch)
        shutil.rmtree(folder)
    assert found == []


def test_columns_are_stored_in_the_type_that_is_declared(tmp_path: Path) -> None:
    """So every order, extreme and comparison in SQL is one of values, whatever SQL it is."""
    kinds = [("who", pa.int64()), *((name, kind) for name, (kind, _, _) in COLUMNS.items())]
    table = pa.table({name: pa.array([], kind) for name, kind in kinds})
    with sparseq.create(
        tmp_path / "s", {"t": table, "u": table}, user="who", public={"m": PUBLIC}, time="day"
    ) as con:
        catalog = con.catalog
        stored = con.backend.database.execute(
            "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() "
            "WHERE schema_name IN ('by_user', 'by_time', 'public') AND column_name <> '_user'"
        ).fetchall()
        schemas = con.backend.database.execute(
            "SELECT DISTINCT schema_name FROM duckdb_tables()"
        ).fetchall()
    expected = {
        (schema, table.name, column.name, column.type)
        for table in catalog.tables
        for schema in (("by_user", "by_time") if table.private else ("public",))
        for column in table.columns
        if column.name != table.user
    }
    assert set(stored) == expected
    assert {name for (name,) in schemas} == {"by_user", "by_time", "public", "ledger", "main"}
