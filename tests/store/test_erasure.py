"""People are erased from what can be asked and from the file's bytes; their accounts are not."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.load import held_rows
from sparseq.store.curator import Erasure, account, exact_sql, forget, top_spenders

UNIT = 2**24
COUNT = "SELECT count(*) AS n FROM t"


def table(kind: Callable[[int], Any], *people: int) -> pa.Table:
    return pa.table({"who": [kind(i) for i in people], "k": [i % 3 for i in people]})


def spent(con: sparseq.Store, identifier: Any) -> float:
    return account(con, str(identifier)).spent


# The account --------------------------------------------------------------------------------------


KINDS: dict[str, Callable[[int], Any]] = {
    "BIGINT": lambda i: -(i**15),
    "VARCHAR": lambda i: f"näme {i}",
    "UUID": lambda i: str(uuid.UUID(int=i**50)),
    "UBIGINT": lambda i: str(2**64 - i),
}


def typed(kind: str, rows: pa.Table, path: Path) -> Path:
    """A file of rows with identifiers of that type."""
    duckdb.sql(f"SELECT who::{kind} AS who, k FROM rows").write_parquet(str(path))
    return path


@pytest.mark.parametrize("kind", one_in(2, KINDS))
def test_whoever_comes_back_has_the_same_account(kind: str, tmp_path: Path) -> None:
    of = KINDS[kind]

    def file(*people: int) -> Path:
        return typed(kind, table(of, *people), tmp_path / "t.parquet")

    con = sparseq.create(
        tmp_path / "s",
        file(2, 2, 3),
        user="who",
        purposes=[sparseq.Questions(in_or_out=True, counts=7)],
    )
    assert con.backend.storage.get("users") == kind
    con.sql(COUNT, fresh=True)
    assert (spent(con, of(2)), spent(con, of(3))) == (4, 1)
    assert forget(con, of(2)) == Erasure(1, {"t": 2})
    assert forget(con, of(2)) == Erasure(0, {"t": 0})
    for _ in range(2):
        found = account(con, str(of(2)))
        assert (found.id, found.spent, found.budget, found.rows) == (None, 4, 7, {"t": 0})
        con.close()
        con = sparseq.connect(tmp_path / "s")
    con.sql(COUNT, fresh=True)
    assert (spent(con, of(2)), spent(con, of(3))) == (4, 2)
    con.ingest(file(2, 5))
    assert len(con.stream.accounts) == 3
    con.sql(COUNT, fresh=True)
    assert [spent(con, of(i)) for i in (2, 3, 5)] == [5, 3, 1]
    assert account(con, str(of(2))).id is not None
    assert forget(con, of(2), of(3)) == Erasure(2, {"t": 2})
    con.ingest(file(2, 2, 2))
    con.sql(COUNT, fresh=True)  # 9 is more than is left
    assert [spent(con, of(i)) for i in (2, 3, 5)] == [5, 3, 2]
    con.close()


def test_a_width_of_integers_is_not_part_of_an_identifier() -> None:
    con = sparseq.create(None, {"t": table(lambda i: i, 1, 2)}, user="who", purposes=IN_OR_OUT)
    con.sql(COUNT, fresh=True)
    forget(con, 1)
    con.ingest(pa.table({"who": pa.array([1], pa.int8()), "k": [0]}))
    assert (len(con.stream.accounts), spent(con, 1)) == (2, 1)


def test_an_own_budget_is_as_it_was_whatever_comes_back() -> None:
    def rows(own: float | None) -> pa.Table:
        return pa.table({"who": ["ann", "bob"], "own": pa.array([own, 2.0], pa.float64())})

    con = sparseq.create(
        None, {"t": rows(3.0)}, user="who", budget_column="own", purposes=IN_OR_OUT
    )
    con.sql(COUNT, fresh=True)
    for own in (None, 20.0, 1.0):
        forget(con, "ann")
        con.ingest(rows(own))
        found = account(con, "ann")
        assert (found.budget, found.spent) == (3, 1)


def test_nobody_elses_rows_answers_or_accounts_change() -> None:
    rows = pa.table(
        {
            "who": ["ann", "bob", "bob", "cid"],
            "shop": ["only ann's", "x", "y", "x"],
            "day": [1, 2, 3, 4],
        }
    )
    con = sparseq.create(
        None,
        {"t": rows},
        user="who",
        keys={"shop": ["x", "y", "z"]},
        purposes=[sparseq.Questions(in_or_out=True, counts=2**10)],
    )
    by_shop = "SELECT shop, count(*) AS n FROM t GROUP BY shop"
    con.sql(by_shop, fresh=True)
    answers = [con.release(r.id).to_bytes() for r in con.releases()]
    forget(con, "ann")
    assert [con.release(r.id).to_bytes() for r in con.releases()] == answers
    left = exact_sql(con, "SELECT * FROM t ORDER BY ALL").to_pylist()
    assert left == rows.slice(1).sort_by([("who", "ascending"), ("day", "ascending")]).to_pylist()
    con.sql(by_shop, fresh=True)
    con.ingest(pa.table({"who": ["ann", "bob"], "shop": ["z", "new"], "day": [1, 1]}))
    left = exact_sql(con, "SELECT shop, count(*) AS n FROM t GROUP BY ALL ORDER BY ALL")
    assert left.to_pydict() == {"shop": ["new", "x", "y", "z"], "n": [1, 2, 1, 1]}
    con.sql(by_shop, fresh=True)
    assert [spent(con, who) for who in ("ann", "bob", "cid")] == [1, 6, 3]


def test_an_identifier_that_nobody_has_erases_nothing() -> None:
    con = sparseq.create(None, {"t": table(str, 1, 2)}, user="who", purposes=IN_OR_OUT)
    with pytest.raises(sparseq.ParameterError, match="'9'") as caught:
        forget(con, "1", "9")
    assert caught.value.hint == "nothing was erased"
    assert account(con, "1").rows == {"t": 1}
    forget(con, "1")
    with pytest.raises(sparseq.ParameterError, match="'9'"):
        forget(con, "9")
    assert len(con.backend.database.execute("SELECT * FROM ledger.forgotten").fetchall()) == 1


def test_everybody_can_be_erased_and_come_back() -> None:
    con = sparseq.create(None, {"t": table(str, 1, 2, 2)}, user="who", seed=1, purposes=IN_OR_OUT)
    con.sql(COUNT, fresh=True)
    assert forget(con, "1", "2", "2") == Erasure(2, {"t": 3})
    assert {name for name, *_ in top_spenders(con)} == {None}
    con.sql(COUNT, fresh=True)
    con.ingest(table(str, 2, 1, 3))
    assert [spent(con, i) for i in "123"] == [1, 4, 0]


def test_the_hash_is_under_a_key_of_the_stores_own() -> None:
    hashes = set()
    for _ in range(2):
        con = sparseq.create(None, {"t": table(str, 1)}, user="who", seed=1, purposes=IN_OR_OUT)
        forget(con, "1")
        ((hash,),) = con.backend.database.execute("SELECT hash FROM ledger.forgotten").fetchall()
        hashes.add(bytes(hash))
        assert len(hash) == 32
    assert len(hashes) == 2


# The bytes ----------------------------------------------------------------------------------------

MARKS = ["id-Mallory", "di-hapax", "te-rarest", "co-before", "wa-inlog"]
"""An identifier; a text in a short column, and in a long one; one corrected; one in the log."""


def gone(con: sparseq.Store) -> bool:
    """Tell whether no query could show a mark, and no byte of the file shows the identifier.

    Other values are overwritten as well, but DuckDB may write old memory into the unused ends of
    blocks; `test_no_byte_of_a_person_is_left_in_the_file` looks for them, if asked to.
    """
    assert con.path is not None
    values = [
        str(row)
        for schema, table in con.backend.database.execute(
            "SELECT schema_name, table_name FROM duckdb_tables()"
        ).fetchall()
        for row in con.backend.database.execute(f'SELECT * FROM {schema}."{table}"').fetchall()
    ]
    assert not any(mark in value for mark in MARKS for value in values)
    return MARKS[0] not in found(con.path)


def found(path: Path) -> set[str]:
    """Which marks are in the file or its log, at least their first 8 bytes (column's extremes)."""
    both = b"".join(p.read_bytes() for p in (path, Path(f"{path}.wal")) if p.exists())
    return {mark for mark in MARKS if mark[:8].encode() in both}


@pytest.fixture
def marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sparseq.Store:
    """A store with one person's marks in every place that a value can be in."""
    monkeypatch.setattr(held_rows, "DICTIONARY_LIMIT", 50)
    who, code, text = MARKS[0], MARKS[1], MARKS[2]
    others = [(f"person {i % 700}", f"k{i % 9}", f"text {i * 7919 % 5003}", i) for i in range(5000)]
    columns = zip(*others, (who, code, text, -1), (who, "k1", MARKS[3], -2), strict=True)
    rows = pa.table(dict(zip(("who", "kind", "text", "n"), map(list, columns), strict=True)))
    path = tmp_path / "s.sparseq"
    con = sparseq.create(
        path,
        {"t": rows},
        user="who",
        time="n",
        row_key="n",
        purposes=[sparseq.Questions(in_or_out=True, counts=500)],
    )
    more = {"who": [who, who, "person 3"], "kind": [MARKS[1]] * 2 + ["k2"], "n": [-2, -3, -3]}
    con.ingest(pa.table({**more, "text": ["corrected", MARKS[4], "theirs"]}))
    assert found(path) == set(MARKS)
    return con


@pytest.mark.deep  # and once in a while not so: see `gone`
def test_no_byte_of_a_person_is_left_in_the_file(marked: sparseq.Store) -> None:
    forget(marked, MARKS[0])
    assert marked.path is not None
    assert found(marked.path) == set()


def test_a_person_is_gone_from_the_file_and_stays_so(marked: sparseq.Store) -> None:
    path = marked.path
    assert path is not None
    marked.sql(COUNT)
    assert forget(marked, MARKS[0]) == Erasure(1, {"t": 3})
    assert gone(marked)
    size = path.stat().st_size
    marked.sql(COUNT)
    marked.close()
    con = sparseq.connect(path)
    assert gone(con)
    assert account(con, MARKS[0]).spent == 9
    assert account(con, "person 3").rows == {"t": 9}
    for _ in range(3):  # and the file does not grow
        con.ingest(pa.table({"who": ["person 3"], "kind": ["k"], "n": [-9], "text": ["x"]}))
        forget(con, "person 3")
    assert path.stat().st_size < 2 * size
    con.close()


def test_what_others_share_stays(marked: sparseq.Store) -> None:
    marked.ingest(pa.table({"who": ["p"], "kind": [MARKS[1]], "n": [0], "text": [MARKS[2]]}))
    forget(marked, MARKS[0])
    assert marked.path is not None
    assert MARKS[0] not in found(marked.path)
    assert {MARKS[1], MARKS[2]} <= found(marked.path)
    shown = exact_sql(marked, f"SELECT who FROM t WHERE kind = '{MARKS[1]}'")
    assert shown["who"].to_pylist() == ["p"]


# Kills --------------------------------------------------------------------------------------------

STATEMENTS = [
    "BEGIN",
    "INSERT INTO meta",
    "CREATE TABLE by_user",
    "DROP TABLE by_user",
    "ALTER TABLE by_user",
    "CREATE TABLE by_time",
    "INSERT INTO ledger.forgotten",
    "DROP TABLE ledger.users",
    "ALTER TABLE ledger",
    "COMMIT",
    "DROP TABLE IF EXISTS filling",
    "CHECKPOINT",
    "CREATE TABLE filling",
    "DROP TABLE filling",
    "DELETE FROM meta",
]


@pytest.mark.parametrize(
    ("after", "step"),
    [
        pytest.param(False, 1, marks=pytest.mark.deep),
        pytest.param(True, 1, marks=pytest.mark.deep),
        pytest.param(True, 5, marks=pytest.mark.deep),
        (True, 10),  # the commit is among them
    ],
)
def test_killed_at_any_statement_everything_is_erased_or_nothing(
    marked: sparseq.Store, after: bool, step: int, tmp_path: Path
) -> None:
    marked.sql(COUNT)
    marked.close()
    original = (tmp_path / "s.sparseq").read_bytes()
    paths = {i: tmp_path / f"{i}.sparseq" for i in range(0, len(STATEMENTS), step)}
    for path in paths.values():
        path.write_bytes(original)
    kill_all({str(path): STATEMENTS[i] for i, path in paths.items()}, after)
    done = STATEMENTS.index("COMMIT")
    for i, path in paths.items():
        erased = i > done or (i == done and after)
        with sparseq.connect(path) as con:
            assert account(con, MARKS[0]).spent == 9
            assert account(con, MARKS[0]).rows == {"t": 0 if erased else 3}
            assert gone(con) if erased else found(path) == set(MARKS), STATEMENTS[i]
            assert forget(con, MARKS[0]).people == (not erased)
            assert gone(con)
            assert con.backend.storage.get("scrub") is None
            assert exact_sql(con, COUNT)["n"].to_pylist() == [5001]
            con.sql(COUNT, fresh=True)
            assert account(con, MARKS[0]).spent == 9


def kill_all(paths: dict[str, str], after: bool) -> None:
    """Forget in processes that are killed, each before or after a statement of its own.

    They are copies of one that has imported everything and opened nothing.
    """
    script = f"""
import os, sys
sys.path[:0] = [{str(Path(__file__).parents[1])!r}]
import endless_stream, sparseq, sparseq.store.curator, sparseq.store.create
for path, statement in {paths!r}.items():
    if os.fork() == 0:
        con = sparseq.connect(path)
        back = con.backend
        back.database = back.storage._con = endless_stream.Dying(back.database, statement, {after})
        sparseq.store.curator.forget(con, {MARKS[0]!r})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == -9, statement
"""
    root = str(Path(sparseq.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_failure_before_the_end_erases_nothing(
    marked: sparseq.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("sparseq.engine._duckdb.people.People.forget", broken)
        with pytest.raises(MemoryError):
            forget(marked, MARKS[0])
    assert account(marked, MARKS[0]).rows == {"t": 3}
    assert marked.sql(COUNT).facts.release == 1
    assert forget(marked, MARKS[0]).people == 1
