"""The figures of docs/charts.md: questions about CDNOW, and their recorded answers.

`python -m tests.answers.chart_examples` asks anew, and writes answers and figures; look at these.
The noise has a seed, so that nobody takes the figures for private answers.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import sparseq
from sparseq.answers.answer_facts import Facts
from sparseq.answers.chart_kinds import Chart, answer_figure
from sparseq.pictures.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = Path(__file__).parent / "golden" / "answers.json"
PICTURES = ROOT / "docs" / "pictures" / "charts"
_IN_1997 = "date BETWEEN DATE '1997-01-01' AND DATE '1997-12-31'"
_SIZE = (
    "CASE WHEN amount < 20 THEN 'below 20' WHEN amount < 50 THEN '20 to 50' "
    "ELSE '50 and more' END AS size"
)


class Example(NamedTuple):
    """A question, and how it is drawn."""

    title: str
    sql: str
    chart: Chart | None = None


EXAMPLES = {
    "histogram": Example(
        "Purchases by number of CDs",
        "SELECT histogram(quantity, [1, 2, 3, 4, 5, 6, 7, 8, 9]) AS purchases FROM purchases",
    ),
    "bins": Example(
        "Purchases by amount, in dollars",
        "SELECT histogram(amount, [0, 10, 20, 50, 100, 200]) AS purchases FROM purchases",
    ),
    "funnel": Example(
        "Customers who ever spent so much at once",
        "SELECT count(DISTINCT customer_id) AS anything, "
        'count(DISTINCT customer_id) FILTER (WHERE amount > 20) AS "over $20", '
        'count(DISTINCT customer_id) FILTER (WHERE amount > 50) AS "over $50", '
        'count(DISTINCT customer_id) FILTER (WHERE amount > 100) AS "over $100" FROM purchases',
    ),
    "measures": Example(
        "The shop in three numbers",
        "SELECT count(*) AS purchases, count(DISTINCT customer_id) AS customers, "
        'avg(amount) AS "average amount" FROM purchases',
    ),
    "months": Example(
        "Purchases by month",
        "SELECT date_trunc('month', date) AS month, count(*) AS purchases FROM purchases "
        f"WHERE {_IN_1997} GROUP BY month",
    ),
    "weeks": Example(
        "Purchases by week",
        "SELECT date_trunc('week', date) AS week, count(*) AS purchases FROM purchases "
        "WHERE date BETWEEN DATE '1997-01-06' AND DATE '1997-04-06' GROUP BY week",
    ),
    "days": Example(
        "Purchases by day",
        "SELECT date, count(*) AS purchases FROM purchases "
        "WHERE date BETWEEN DATE '1997-01-01' AND DATE '1997-02-28' GROUP BY date",
    ),
    "cohorts": Example(
        "Customers who come back, by the month of their first purchase",
        "WITH f AS (SELECT customer_id, min(date) AS first FROM purchases GROUP BY customer_id) "
        "SELECT date_trunc('month', first) AS cohort, date_diff('month', first, date) AS months, "
        "count(DISTINCT customer_id) AS customers FROM purchases JOIN f USING (customer_id) "
        "WHERE first BETWEEN DATE '1997-01-01' AND DATE '1997-03-31' "
        "AND date_diff('month', first, date) BETWEEN 1 AND 12 GROUP BY cohort, months",
    ),
    "bars": Example(
        "Purchases by size", f"SELECT {_SIZE}, count(*) AS purchases FROM purchases GROUP BY size"
    ),
    "grouped": Example(
        "Purchases by size and half of the year",
        f"SELECT {_SIZE}, CASE WHEN month(date) <= 6 THEN 'first half' ELSE 'second half' END "
        f"AS half, count(*) AS purchases FROM purchases WHERE {_IN_1997} GROUP BY size, half",
        "bars",
    ),
    "lines": Example(
        "Purchases by month and size",
        f"SELECT date_trunc('month', date) AS month, {_SIZE}, count(*) AS purchases "
        f"FROM purchases WHERE {_IN_1997} GROUP BY month, size",
    ),
    "several": Example(
        "Purchases by month, and their average amount",
        "SELECT date_trunc('month', date) AS month, count(*) AS purchases, "
        'avg(amount) AS "average amount" FROM purchases '
        f"WHERE {_IN_1997} GROUP BY month",
    ),
}
_FACTS = {
    "release": 1,
    "request_id": None,
    "query": "",
    "labels": (),
    "kinds": (),
    "sigma": (),
    "granularity": (),
    "scale": (),
    "coordinates": 1,
    "confidence": 0.95,
    "kappa": 0.5,
    "norm_budget": 48.0,
    "seeded": False,
    "interval": "assumed",
}


def recorded() -> dict[str, pa.Table]:
    """Return the recorded answers, with the roles of their columns."""
    return {k: _table(columns) for k, columns in json.loads(ANSWERS.read_text()).items()}


def figure_of(name: str, table: pa.Table) -> Figure:
    """Return the figure of an example."""
    example = EXAMPLES[name]
    facts: dict[str, Any] = _FACTS
    return answer_figure(table, Facts(**facts), example.title, example.chart)


def _table(columns: list[dict[str, Any]]) -> pa.Table:
    fields = [pa.field(c["name"], _TYPES[c["type"]], metadata=c["roles"]) for c in columns]
    values = [pa.array(c["values"], _READ.get(c["type"])) for c in columns]
    arrays = [v.cast(field.type) for v, field in zip(values, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


_TYPES = {
    "int64": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "date32[day]": pa.date32(),
}
_READ = {"double": pa.float64()}


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    """Return the columns of an answer for JSON; months and weeks as dates."""
    found = []
    for field in table.schema:
        column = table[field.name]
        if pa.types.is_timestamp(field.type):
            column = column.cast(pa.date32())
        values = [v.isoformat() if isinstance(v, dt.date) else v for v in column.to_pylist()]
        roles = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
        kind = "string" if pa.types.is_large_string(column.type) else str(column.type)
        found.append({"name": field.name, "type": kind, "roles": roles, "values": values})
    return found


def _ask_all() -> dict[str, Any]:
    rows = pa.parquet.read_table(ROOT / "data" / "cdnow.parquet")
    columns = {"amount": (0, 500), "quantity": (1, 20)}
    con = sparseq.create(
        None, {"purchases": rows}, user="customer_id", bounds=columns, seed=1, kappa=0.5
    )
    return {name: _plain(con.sql(example.sql).arrow()) for name, example in EXAMPLES.items()}


if __name__ == "__main__":
    import pyarrow.parquet

    from sparseq.answers.answer_figures import Drawing

    lines = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in _ask_all().items())
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    PICTURES.mkdir(exist_ok=True)
    for name, table in recorded().items():
        Drawing(figure_of(name, table)).save(PICTURES / f"{name}.svg")
