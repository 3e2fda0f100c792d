"""SQLStorm's queries over TPC-H: python -m benchmarks.tpch sqlstorm FOLDER

SQLStorm (github.com/SQL-Storm/SQLStorm) has thousands of queries that a language model wrote; those
over TPC-H are NUMBER.sql in a folder. From a sample, the queries that plain DuckDB answers in time
are asked here: each is answered as by DuckDB, except for noise, or refused. docs/tpch.md has the
table.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

import sparseq
from benchmarks.tpch import PEOPLE, PUBLIC
from benchmarks.written import Question
from benchmarks.written.check import difference, outcome
from sparseq.base.errors import QueryRefused

DECLARED: dict[str, dict[str, Any]] = {
    "bounds": {"o_totalprice": (0, 800_000), "l_linenumber": (1, 7)},
    "keys": {
        "o_orderkey": "@own",
        "c_nationkey": range(25),
        "o_orderstatus": ["F", "O", "P"],
        "c_mktsegment": ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"],
        "l_shipinstruct": ["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"],
    },
    "most": {"work": 1_000_000_000},
}
"""What else the specification says: an order is one customer's, and has at most 7 lines, each of
105,000 and 8 % tax; there are 25 nations. Nobody is left out of a join for what it multiplies."""
WHY = {
    "it lists single customers, orders or lines": (
        r"values of (c_(custkey|name|address|phone|comment)|o_(orderkey|comment|clerk)|l_orderkey)"
        " are|neither in GROUP BY nor aggregated|a row of one person|lists of rows"
    ),
    "groups that nobody declared": r"values of .* (are|is) not public",
    "more groups than an answer may have": "values in its result|public values",
    "recursion": "RECURSIVE",
    "an order of all people's rows": "puts all people's rows in one order",
    "an answer about people, joined with their rows": "joins people's rows with an answer",
    "a subquery that is not answered": "subquery|an outer query",
    "other values are counted than people": "which values occur is a fact about people",
    "a sum without a public scale": "no public scale",
}
"""Why a query is refused, in the order in which messages are tried."""


@dataclass(frozen=True)
class Asked:
    """The outcome of one query.

    Attributes:
        number: SQLStorm's number.
        kind: answered, public, refused, differs, or unread if plain DuckDB gives no answer.
        said: The refusal, or the difference.
    """

    number: int
    kind: str
    said: str = ""

    @property
    def why(self) -> str:
        """The class of the refusal."""
        return next((why for why, said in WHY.items() if re.search(said, self.said)), "another")


def sample(folder: Path, size: int, seed: int) -> dict[int, str]:
    """Return some queries by number."""
    paths = {int(path.stem): path for path in folder.glob("*.sql") if path.stem.isdecimal()}
    if not paths:
        raise SystemExit(f"{folder} has no NUMBER.sql; see github.com/SQL-Storm/SQLStorm")
    chosen = random.Random(seed).sample(sorted(paths), min(size, len(paths)))
    return {number: paths[number].read_text().strip().rstrip(";") for number in sorted(chosen)}


def plain(folder: Path) -> duckdb.DuckDBPyConnection:
    """Return TPC-H's tables in plain DuckDB."""
    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")
    for name in (*PEOPLE, *PUBLIC):
        con.execute(f"CREATE TABLE {name} AS FROM '{folder}/{name}.parquet'")
    return con


def runs(truth: duckdb.DuckDBPyConnection, sql: str, seconds: float) -> str:
    """Return "" if plain DuckDB answers a query in time, or its error."""
    timer = threading.Timer(seconds, truth.interrupt)
    timer.start()
    try:
        truth.execute(f"SELECT count(*) FROM ({sql})").fetchall()
    except duckdb.Error as error:
        return str(error).partition("\n")[0]
    finally:
        timer.cancel()
    return ""


def ask(
    con: sparseq.Store, truth: duckdb.DuckDBPyConnection, number: int, sql: str, seconds: float
) -> Asked:
    """Ask one query, and compare the answer without noise with plain DuckDB's."""
    if said := runs(truth, sql, seconds):
        return Asked(number, "unread", said)
    question = Question("sqlstorm", str(number), sql, sql)
    try:
        if not con.lower(sql).measures:
            wrong = difference(con.sql(sql).arrow(), truth, question)
            return Asked(number, "differs" if wrong else "public", wrong)
    except QueryRefused as refused:
        return Asked(number, "refused", refused.message)
    found = outcome(con, truth, question)
    return Asked(number, found.kind, found.said)


def table(found: list[Asked]) -> Iterator[str]:
    """Yield what became of queries, as a table in Markdown."""
    asked = [one for one in found if one.kind != "unread"]
    kinds = {
        "answered, as DuckDB does but for noise": [o for o in asked if o.kind == "answered"],
        "exact: public tables only": [o for o in asked if o.kind == "public"],
        "answered otherwise than DuckDB": [o for o in asked if o.kind == "differs"],
    }
    for why in (*WHY, "another"):
        refused = [o for o in asked if o.kind == "refused" and o.why == why]
        kinds |= {f"refused: {why}": refused} if refused else {}
    yield f"| of {len(asked)} queries that plain DuckDB answers | | SQLStorm's numbers |"
    yield "| :--- | ---: | :--- |"
    for kind, some in kinds.items():
        yield f"| {kind} | {len(some)} | {', '.join(str(one.number) for one in some)} |"
