"""TPC-H unchanged: python -m benchmarks.tpch [--scale 1]; its questions and plain DuckDB.

Customers are the people; `--link` finds the customer of an order and of a line. The 22 questions
(queries.sql) are asked one after another as the specification writes them, in one session of one
store of kappa 0.5. Public constants are declared: bounds and lists of values in the specification,
and the keys of suppliers. `tpchgen-cli` (PyPI) makes the data, in out/.
"""

from __future__ import annotations

import math
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.released.result_columns import ColumnRole, column_parts, keys_of, noised_of

HERE = Path(__file__).parent
OUT = HERE.parent.parent / "out"
PEOPLE = ("customer", "orders", "lineitem")
PUBLIC = ("supplier", "part", "partsupp", "nation", "region")
LINKS = {"orders.o_custkey": "customer.c_custkey", "lineitem.l_orderkey": "orders.o_orderkey"}
BOUNDS = {
    "l_quantity": (1, 50),
    "l_extendedprice": (900, 105_000),
    "l_discount": (0, 0.1),
    "l_tax": (0, 0.08),
    "c_acctbal": (-1000, 10_000),
    "l_shipdate": ("1992-01-01", "1998-12-31"),
    "o_orderdate": ("1992-01-01", "1998-12-31"),
}
KEYS = {
    "l_returnflag": ["A", "N", "R"],
    "l_linestatus": ["F", "O"],
    "l_shipmode": ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"],
    "o_orderpriority": ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"],
}
MOST = {"people": 6}
LEAST_ANSWERED = 15


@dataclass
class Outcome:
    """The outcome of one question.

    Attributes:
        name: "q01".
        why: Reason of the refusal; "" if it was answered.
        public: True if it is about public tables only.
        errors, widths: For each value: its distance from the truth, and its interval's half-width,
            over the truth.
        seconds, plain: Time of the answer, and of DuckDB alone.
    """

    name: str
    why: str = ""
    public: bool = False
    errors: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    seconds: float = math.nan
    plain: float = math.nan

    def row(self) -> list[str]:
        """Return it as a row of the table."""
        number = str(int(self.name[1:]))
        if self.why:
            return [number, f"refused: {self.why}", "", "", "", ""]
        if self.public:
            return [number, "exact: public tables only", "", "", "", _times(self)]
        values = f"{len(self.errors):,}"
        return [number, "answered", values, _share(self.errors), _share(self.widths), _times(self)]


HEAD = ("query", "", "values", "median error", "median half-width", "time beside DuckDB")


def _share(parts: list[float]) -> str:
    return f"{100 * statistics.median(parts):,.1f} %" if parts else ""


def _times(one: Outcome) -> str:
    return f"{one.seconds / one.plain:,.1f} ×"


def queries() -> dict[str, str]:
    """Return the 22 questions by name."""
    text = (HERE / "queries.sql").read_text()
    return {m[1]: m[2] for m in re.finditer(r"^-- (q\d\d)\n(.*?);$", text, re.M | re.S)}


def data(scale: float) -> Path:
    """Return the folder with TPC-H's tables, made if it is not there."""
    folder = OUT / f"tpch-{scale:g}"
    if not folder.exists():
        program = shutil.which("tpchgen-cli")
        if program is None:
            raise SystemExit("TPC-H's data are made by tpchgen-cli: pip install tpchgen-cli")
        working = folder.with_suffix(".part")
        command = [program, "parquet", "-s", f"{scale:g}", "--output-dir", str(working)]
        subprocess.run(command, check=True, capture_output=True)
        working.rename(folder)
    return folder


def store(
    folder: Path, path: Path | None = None, seed: int | None = None, **more: dict[str, Any]
) -> sparseq.Store:
    """Return a store of TPC-H's tables as they are; `more` bounds, keys and limits may be given."""
    count = pq.read_metadata(folder / "supplier.parquet").num_rows
    return sparseq.create(
        path,
        {name: folder / f"{name}.parquet" for name in PEOPLE},
        user="customer.c_custkey",
        links=LINKS,
        public={name: folder / f"{name}.parquet" for name in PUBLIC},
        bounds=BOUNDS | more.get("bounds", {}),
        keys=KEYS | {"l_suppkey": range(1, count + 1)} | more.get("keys", {}),
        most=MOST | more.get("most", {}),
        seed=seed,
    )


def session(con: sparseq.Store, folder: Path, repeats: int = 3) -> list[Outcome]:
    """Ask all questions, in order, and compare the answers with plain DuckDB."""
    plain = duckdb.connect()
    plain.execute("SET enable_progress_bar = false")
    for name in (*PEOPLE, *PUBLIC):
        plain.execute(f"CREATE TABLE {name} AS FROM '{folder}/{name}.parquet'")
    return [asked(con, plain, name, sql, repeats) for name, sql in queries().items()]


def asked(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, name: str, sql: str, repeats: int
) -> Outcome:
    """Ask one question."""
    start = time.perf_counter()
    try:
        answer = con.sql(sql)
    except QueryRefused as refused:
        return Outcome(name, refused.message)
    found = Outcome(name, seconds=time.perf_counter() - start, plain=math.inf)
    for _ in range(repeats):
        start = time.perf_counter()
        true = plain.sql(sql).to_arrow_table()
        found.plain = min(found.plain, time.perf_counter() - start)
    found.public = answer.facts.release == 0
    if not found.public:
        compare(answer.arrow(), true, found)
    return found


def compare(table: pa.Table, true: pa.Table, found: Outcome) -> None:
    """Add the errors of an answer's values that plain SQL has a row for."""
    keys = [name.lower() for name in keys_of(table)]
    rows = [{k.lower(): v for k, v in row.items()} for row in table.to_pylist()]
    wanted = [{k.lower(): v for k, v in row.items()} for row in true.to_pylist()]
    ours = {tuple(map(str, (row[k] for k in keys))): row for row in rows}
    errors = {n.lower(): column_parts(table)[n][ColumnRole.ERROR].lower() for n in noised_of(table)}
    for row in wanted:
        mine = ours.get(tuple(map(str, (row[k] for k in keys if k in row))), {})
        for name, its_error in errors.items():
            truth, value, error = row[name], mine.get(name), mine.get(its_error)
            if truth and value is not None and error is not None:
                found.errors.append(abs(float(value) - float(truth)) / abs(float(truth)))
                found.widths.append(float(error) / abs(float(truth)))


def run(scale: float = 0.1) -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    folder = data(scale)
    with store(folder) as con:
        outcomes = session(con, folder)
    answered = [one for one in outcomes if not one.why]
    noised = [one for one in answered if not one.public]
    yield _figure("tpch: answered as written", len(answered), "of 22", LEAST_ANSWERED)
    for name, of in (("error", "errors"), ("half-width", "widths")):
        each = [statistics.median(getattr(one, of)) for one in noised if getattr(one, of)]
        yield _figure(f"tpch: median {name}", 100 * statistics.median(each), "%")
    times = statistics.median(one.seconds / one.plain for one in noised)
    yield _figure("tpch: time beside DuckDB", times, "×")


def _figure(name: str, figure: float, unit: str, least: float | None = None) -> dict[str, Any]:
    limit = "" if least is None else f">= {least:g}"
    ok = least is None or figure >= least
    return {"name": name, "figure": figure, "unit": unit, "limit": limit, "ok": ok}
