"""Hostile and wrong queries: refused in one line, or answered like any other; nothing gets out.

hostile.sql holds one query a line. What becomes of each is in golden/refusals.txt, written anew by
UPDATE_GOLDEN=1.
"""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.base.errors import ParameterError, QueryRefused, SparseqError

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "refusals.txt"
SECRETS = ("424242", "515151", "777.25", "888.5", "ZEBRA", "QUOKKA", "1997-05-05", "363636")
EVENTS = pa.table(
    {
        "who": pa.array([424242, 424242, 515151, 515151], pa.int32()),
        "day": [dt.date(1997, 5, 5)] * 4,
        "seen": [dt.datetime(1997, 5, 5, 1)] * 4,
        "note": ["ZEBRA", "QUOKKA", "5", None],
        "amount": [777.25, 888.5, float("nan"), None],
        "qty": pa.array([363636, 9_223_372_036_854_775_807, 0, None], pa.int64()),
        "gift": [True, False, True, None],
        "shop_id": pa.array([1, 2, 3, 4], pa.int16()),
    }
)
VISITS = EVENTS.select(["who", "day"]).append_column("pages", pa.array([1, 2, 3, 424242]))
SHOPS = pa.table({"shop_id": pa.array([1, 2], pa.int16()), "rent": [1.0, 2.0]})


def _lines() -> list[str]:
    text = (HERE / "hostile.sql").read_text()
    return [q.removesuffix(";") for q in text.splitlines() if q and not q.startswith("-- #")]


NUMBERS = tuple(range(5_000))
NOTES = ",".join(["note"] * 3_000)
LONG = {
    "ten thousand parentheses": f"SELECT {'(' * 10_000}1{')' * 10_000} FROM events",
    "ten thousand subqueries": "SELECT count(*) FROM "
    + "(SELECT who FROM " * 10_000
    + "events"
    + ")" * 10_000,
    "a hundred subqueries": "SELECT count(*) FROM "
    + "(SELECT who FROM " * 100
    + "events"
    + ")" * 100,
    "ten thousand NOTs": f"SELECT count(*) FROM events WHERE {'NOT ' * 10_000} gift",
    "ten thousand CASEs": "SELECT count(*) FROM events WHERE "
    + "CASE WHEN gift THEN " * 5_000
    + "gift"
    + " END" * 5_000,
    "three thousand ORs": "SELECT count(*) FROM events WHERE " + " OR ".join(["qty=1"] * 3_000),
    "ten thousand terms": "SELECT count(*) FROM events WHERE qty=" + "+".join(["1"] * 10_000),
    "a long list": f"SELECT count(*) FROM events WHERE qty IN {NUMBERS}",
    "a long list behind an expression": f"SELECT count(*) FROM events WHERE qty + 1 IN {NUMBERS}",
    "a long text": f"SELECT count(*) FROM events WHERE note = '{'x' * 90_000}'",
    "a longer text": f"SELECT count(*) FROM events WHERE note = '{'x' * 200_000}'",
    "a long name": f"SELECT count({'x' * 90_000}) FROM events",
    "a long number": f"SELECT count(*) FROM events WHERE qty < {'9' * 50_000}",
    "a long limit": f"SELECT count(*) FROM events LIMIT {'9' * 5_000}",
    "a long place": f"SELECT count(*) FROM events ORDER BY {'9' * 5_000}",
    "names that double": "SELECT qty AS a0, "
    + ", ".join(f"a{i} + a{i} AS a{i + 1}" for i in range(40))
    + ", count(*) FROM events",
    "text that doubles": "WITH "
    + ", ".join(
        f"v{i} AS (SELECT who, note || note AS note FROM {f'v{i - 1}' if i else 'events'})"
        for i in range(40)
    )
    + " SELECT count(*) FROM v39 WHERE length(note) > 3",
    "subqueries that double": "WITH v0 AS (SELECT who FROM events), "
    + ", ".join(
        f"v{i} AS (SELECT a.who FROM v{i - 1} a JOIN v{i - 1} b ON a.who = b.who)"
        for i in range(1, 30)
    )
    + " SELECT count(*) FROM v29",
    "many subqueries": "WITH v0 AS (SELECT who FROM events), "
    + ", ".join(f"v{i} AS (SELECT who FROM v{i - 1})" for i in range(1, 500))
    + " SELECT count(*) FROM v499",
    "a concat of very many": f"SELECT count(*) FROM events WHERE concat({NOTES}) = 'a'",
    "a nul": "SELECT count(*) FROM events WHERE note = 'a\0b'",
    "a surrogate": "SELECT count(*) FROM events WHERE note = '\ud800'",
    "text from right to left": "SELECT count(*) FROM events WHERE note = '\u202e;PORD'",
    "nothing": "",
    "spaces": " \n\t ",
}
QUERIES = {q: q for q in _lines()} | LONG


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("canaries")
    secret = pa.table({"secret": ["ZEBRA", "CANARY"]})
    pyarrow.csv.write_csv(secret, folder / "canary.csv")
    pyarrow.parquet.write_table(secret, folder / "canary.parquet")
    return folder


def store() -> sparseq.Store:
    """Return a store of the rows."""
    return sparseq.create(
        None,
        {"visits": VISITS, "events": EVENTS},
        user="who",
        public={"shops": SHOPS},
        purposes=IN_OR_OUT,
        find_bounds=None,
    )


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return store()


@pytest.fixture(scope="module")
def golden() -> dict[str, str]:
    return dict(read_golden()) if GOLDEN.exists() else {}


def read_golden() -> list[tuple[str, str]]:
    blocks = GOLDEN.read_text().strip().split("\n\n")
    return [(name, "\n".join(said)) for name, *said in (b.split("\n") for b in blocks)]


@pytest.mark.parametrize("name", QUERIES, ids=lambda name: name[:60])
def test_query_is_refused_or_answered_safely(
    con: sparseq.Store,
    canaries: Path,
    golden: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.chdir(canaries)
    before = _snapshot(canaries)
    outcome = _outcome(con, QUERIES[name])
    assert _snapshot(canaries) == before, "a file was touched"
    quoted = [s for s in SECRETS if s in outcome and s not in QUERIES[name]]
    assert not quoted, outcome
    if os.environ.get("UPDATE_GOLDEN"):
        _update_golden(name, outcome)
    else:
        assert outcome == golden[name]


def _outcome(con: sparseq.Store, sql: str) -> str:
    spent, releases = con.stream.accounts.spent.copy(), len(con.releases())
    try:
        query = con.lower(sql)
        con.explain(query)
    except SparseqError as error:
        refusal = error
    else:
        con.sql(sql)  # once lowered, the rows must not make it fail
        return "answered"
    assert isinstance(refusal, QueryRefused | ParameterError)
    assert "\n" not in refusal.message + refusal.hint
    assert len(str(refusal)) < 500
    assert (con.stream.accounts.spent == spent).all()
    assert len(con.releases()) == releases
    return str(refusal)


def _snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in folder.rglob("*")}


def _update_golden(name: str, outcome: str) -> None:
    known = dict(read_golden()) if GOLDEN.exists() else {}
    known[name] = outcome
    text = "\n\n".join(f"{q}\n{known[q]}" for q in QUERIES if q in known)
    GOLDEN.write_text(text + "\n")


def test_golden_file_has_no_query_that_is_gone() -> None:
    assert [name for name, _ in read_golden()] == list(QUERIES)


def test_most_are_refused() -> None:
    refused = [name for name, said in read_golden() if said != "answered"]
    assert len(refused) >= 250


def test_the_log_is_silent(con: sparseq.Store, caplog: pytest.LogCaptureFixture) -> None:
    con.sql("SELECT count(*) FROM events WHERE CAST(note AS INT) > 3")
    assert not any(s in caplog.text for s in SECRETS)
