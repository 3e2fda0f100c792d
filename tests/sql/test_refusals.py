"""Hostile and wrong queries: each is refused in one line, or answered safely.

For every one of them: no error but our own, no exact value and no name of the store's insides in
what it says, no file made or read, nothing charged, nothing released.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import shop
from sampled import one_in

import sparseq
from sparseq.base.errors import NotSql, QueryRefused
from sparseq.sql.parse import Dialect

SECRET = "kumquat-7731"
EVENTS = pa.table(
    {
        "who": [11, 11, 12, 13, 13, 13],
        "day": [dt.date(2024, 1, d) for d in (1, 2, 1, 1, 2, 3)],
        "at": [dt.datetime(2024, 1, d, 12) for d in (1, 2, 1, 1, 2, 3)],
        "kind": ["gift", "book", SECRET, "gift", "12", "toy"],
        "amount": [5.25, 30.0, 987654.75, float("nan"), float("inf"), -99.0],
        "n": [0, 1, 2**31 - 1, -(2**31), 5, None],
        "big": [2**63 - 1, -(2**63), 0, 1, 2, 3],
    },
    schema=pa.schema(
        [
            ("who", pa.int64()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("kind", pa.string()),
            ("amount", pa.float64()),
            ("n", pa.int32()),
            ("big", pa.int64()),
        ]
    ),
)
VISITS = pa.table({"who": [11, 12, 14], "page": ["a", "b", SECRET]})
SHOPS = pa.table({"kind": ["gift", "book"], "shelf": [1, 2]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working directory with files that nobody may read."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "canary.csv").write_text("secret\nfile-secret-4411\n")
    here = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(here)


@pytest.fixture(scope="module")
def con(folder: Path) -> sparseq.Store:
    return sparseq.create(
        folder / "hostile.sparseq",
        {"visits": VISITS, "events": EVENTS},
        user="who",
        public={"shops": SHOPS},
        bounds={"amount": (0, 100)},
        purposes=[sparseq.Questions(counts=50)],
        find_bounds=None,
    )


FILES = [
    "SELECT count(*) FROM read_csv('canary.csv')",
    "SELECT count(*) FROM read_parquet('canary.parquet')",
    "SELECT count(*) FROM 'canary.csv'",
    'SELECT count(*) FROM "canary.csv"',
    "SELECT count(*) FROM glob('*')",
    "SELECT count(*) FROM read_text('canary.csv')",
    "SELECT count(*) FROM events WHERE kind IN (SELECT content FROM read_text('canary.csv'))",
    "SELECT count(*) FROM sniff_csv('canary.csv')",
    "COPY events TO 'out.csv'",
    "COPY (SELECT * FROM events) TO 'out.parquet'",
    "EXPORT DATABASE 'out'",
    "IMPORT DATABASE 'out'",
    "ATTACH 'other.db' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT count(*) FROM 'https://example.com/x.parquet'",
]
SETTINGS = [
    "SET threads = 1",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "SELECT current_setting('threads') FROM events",
    "SELECT getenv('HOME') FROM events",
    "SELECT count(*) FROM duckdb_settings()",
    "SELECT count(*) FROM duckdb_tables()",
    "SELECT count(*) FROM information_schema.tables",
    "SELECT count(*) FROM sqlite_master",
    "SELECT version() FROM events",
    "EXPLAIN ANALYZE SELECT * FROM events",
    "DESCRIBE events",
    "SHOW TABLES",
]
WRITES = [
    "DROP TABLE events",
    "DELETE FROM events",
    "UPDATE events SET amount = 0",
    "INSERT INTO events VALUES (1)",
    "CREATE TABLE mine AS SELECT * FROM events",
    "CREATE VIEW mine AS SELECT * FROM events",
    "ALTER TABLE events ADD COLUMN x INT",
    "TRUNCATE events",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN",
    "SELECT count(*) FROM events; DROP TABLE events",
    "SELECT count(*) FROM events; SELECT count(*) FROM events",
    "WITH x AS (DELETE FROM events RETURNING *) SELECT count(*) FROM x",
]
INSIDES = [
    "SELECT count(*) FROM by_user.events",
    "SELECT count(*) FROM ledger.release",
    "SELECT count(*) FROM ledger.users",
    "SELECT count(*) FROM meta",
    'SELECT count(*) FROM dictionary."events.kind"',
    "SELECT count(*) FROM public.shops, events",
    "SELECT count(DISTINCT _user) FROM events",
    "SELECT sum(_user) FROM events",
    'SELECT count("kind#code") FROM events',
    'SELECT count(*) AS "x, (SELECT max(amount) FROM by_user.events) AS y" FROM nothing',
]
ROWS_AS_THEY_ARE = [
    "SELECT * FROM events",
    "SELECT who FROM events",
    "SELECT DISTINCT kind FROM events",
    "SELECT kind FROM events GROUP BY kind",
    "SELECT kind, count(*) FROM events GROUP BY kind",
    "SELECT who, count(*) FROM events GROUP BY who",
    "SELECT day, count(*) FROM events GROUP BY day",
    "SELECT amount, count(*) FROM events WHERE amount > 0 GROUP BY amount",
    "SELECT n, count(*) FROM events WHERE n >= 0 GROUP BY n",
    "SELECT max(kind) FROM events",
    "SELECT min(day) FROM events",
    "SELECT arg_max(who, amount) FROM events",
    "SELECT first(kind) FROM events",
    "SELECT any_value(kind) FROM events",
    "SELECT mode(kind), count(*) FROM events",
    "SELECT list(kind) FROM events",
    "SELECT array_agg(kind) FROM events",
    "SELECT string_agg(kind, ',') FROM events",
    "SELECT group_concat(kind) FROM events",
    "SELECT count(DISTINCT kind) FROM events",
    "SELECT count(DISTINCT amount) FROM events",
    "SELECT approx_count_distinct(kind) FROM events",
    "SELECT sum(DISTINCT amount) FROM events",
    "SELECT bool_or(kind = 'gift') FROM events",
    "SELECT median(amount) FILTER (WHERE n > 0) FROM visits, events",
    "SELECT count(*), amount FROM events",
    "SELECT histogram(kind, [1, 2]) FROM events WHERE nothing = 1",
    "SELECT count(*) OVER () FROM events",
]
ACROSS_PEOPLE = [
    "SELECT count(*) FROM events LIMIT 1 OFFSET (SELECT count(*) FROM events)",
    "SELECT count(*) FROM (SELECT * FROM events LIMIT 3)",
    "SELECT count(*) FROM (SELECT * FROM events ORDER BY amount LIMIT 1)",
    "SELECT count(*) FROM (SELECT max(kind) AS m FROM events)",
    "SELECT count(*) FROM events WHERE amount > (SELECT avg(amount) FROM events)",
    "SELECT count(*) FROM events WHERE EXISTS (SELECT 1 FROM visits WHERE page = 'a')",
    "SELECT count(*) FROM events WHERE kind IN (SELECT page FROM visits)",
    "SELECT count(*) FROM events e WHERE (SELECT count(*) FROM events x WHERE x.day = e.day) > 1",
    "SELECT count(*) FROM events CROSS JOIN visits",
    "SELECT count(*) FROM events, visits",
    "SELECT count(*) FROM events JOIN visits ON events.kind = visits.page",
    "SELECT count(*) FROM events JOIN visits ON events.who < visits.who",
    "SELECT count(*) FROM events JOIN visits ON events.who = visits.who OR true",
    "SELECT count(*) FROM events a JOIN events b ON a.day = b.day",
    "SELECT count(*) FROM shops LEFT JOIN events ON shops.kind = events.kind",
    "SELECT count(*) FROM events FULL JOIN visits ON events.day = visits.day",
    "SELECT count(*) FROM events a FULL JOIN events b ON a.day = b.day WHERE a.who = b.who",
    "SELECT count(*) FROM events a FULL JOIN events b ON a.who = b.who JOIN events c "
    "ON c.who = coalesce(a.who, c.who)",
    "SELECT count(*) FROM events FULL JOIN shops ON events.shop_id = shops.shop_id",
    "SELECT count(*) FROM events SEMI JOIN visits ON events.kind = visits.page",
    "SELECT count(*) FROM events ANTI JOIN visits ON events.kind = visits.page",
    "SELECT count(*) FROM events POSITIONAL JOIN shops",
    "SELECT count(*) FROM events ASOF JOIN visits ON events.who >= visits.who",
    "SELECT count(*) FROM events, LATERAL (SELECT 1 FROM visits WHERE page = events.kind)",
    "SELECT count(*) FROM events TABLESAMPLE 10%",
    "SELECT count(*) FROM events USING SAMPLE 2",
    "SELECT count(*) FROM events WHERE random() < 0.5",
    "SELECT count(*) FROM events ORDER BY random()",
    "SELECT count(*) FROM events QUALIFY row_number() OVER (ORDER BY amount) = 1",
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r",
    "SELECT count(*) FROM (PIVOT events ON kind USING sum(amount))",
    "SELECT count(*) FROM (VALUES (1), (2)) AS t(who)",
    "SELECT count(*) FROM range(10)",
    "SELECT count(*) FROM unnest([1, 2, 3])",
    "SELECT kind, count(*) FROM events GROUP BY ROLLUP (kind)",
    "SELECT kind, count(*) FROM events GROUP BY CUBE (kind)",
    "SELECT kind, count(*) FROM events GROUP BY ALL",
]
WRONG = [
    "",
    "   ",
    "hello",
    "SELEC count(*) FROM events",
    "SELECT count(*) FROM evnts",
    "SELECT count(*) FROM events WHERE amuont > 1",
    "SELECT cuont(*) FROM events",
    "SELECT count(*) FROM events WHERE day = DATE '2024-13-45'",
    "SELECT count(*) FROM events WHERE error('x') = 1",
    "SELECT count(*) FROM events WHERE kind ~ '('",
    "SELECT count(*) FROM events WHERE kind LIKE 'a\\' ESCAPE '\\'",
    "SELECT count(*) FROM events WHERE kind SIMILAR TO 'a%'",
    "SELECT count(*) FROM events WHERE age(seen, day) > 1",
    "SELECT count(*) FROM events WHERE extract(hour FROM day - day) > 1",
    "SELECT count(*) FROM events FETCH FIRST 1 ROW WITH TIES",
    "SELECT count(*) FROM events WHERE date_trunc('fortnight', day) = day",
    "SELECT count(*) FROM events WHERE list_sum([amount]) > 1",
    "SELECT count(*) FROM events WHERE len(list_filter([1], x -> x > amount)) > 1",
    "SELECT count(*) FROM events WHERE kind = ?",
    "SELECT count(*) FROM events WHERE kind = $1",
    "SELECT count(*) FROM events WHERE kind = :kind",
    "SELECT sum(n) FROM events",
    "SELECT sum(kind) FROM events",
    "SELECT sum(who) FROM events",
    "SELECT count(*) FROM events AS e, events AS e",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon => 1) count(*) FROM events",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sigma => -1) count(*) FROM events",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sigma => nan) count(*) FROM events",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sigma => 1, accuracy => 2) count(*) FROM events",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sgma => 1) count(*) FROM events",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(sigma = ) count(*) FROM events",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS count(*) FROM events",
    "SELECT quantile(amount, 1.5, [0, 1]) FROM events",
    "SELECT histogram(amount, [2, 1]) FROM events",
    "SELECT histogram(amount, 7) FROM events",
    "SELECT count(*)",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM events",
    "SELECT count(*) FROM events WHERE kind = '" + "x" * 200_000 + "'",
    "SELECT count(*) FROM events WHERE kind IN (" + ", ".join(["'a'"] * 30_000) + ")",
]
REFUSED = [*FILES, *SETTINGS, *WRITES, *INSIDES, *ROWS_AS_THEY_ARE, *ACROSS_PEOPLE, *WRONG]
PRIVATE = (SECRET, "987654", "file-secret", "by_user", "by_time", "_user", "Traceback", "duckdb")


def test_there_are_enough_of_them() -> None:
    assert len(set(REFUSED)) == len(REFUSED) >= 150


@pytest.mark.parametrize("sql", one_in(2, REFUSED), ids=lambda sql: sql[:70])
def test_it_is_refused_in_one_line_and_costs_nothing(
    con: sparseq.Store, folder: Path, sql: str
) -> None:
    before = (sorted(p.name for p in folder.iterdir()), len(con.releases()))
    with pytest.raises(QueryRefused) as refused:
        con.sql(sql)
    said = refused.value.message
    assert said.strip()
    assert "\n" not in said + refused.value.hint
    assert len(said) < 400
    echoed = said.replace(sql, "")
    assert not [word for word in PRIVATE if word in echoed and word not in sql]
    assert (sorted(p.name for p in folder.iterdir()), len(con.releases())) == before
    assert not con.stream.accounts.spent.any()


# Rows on which an expression fails ----------------------------------------------------------------

FAILING = {
    "a cast": "kind::INTEGER > 5",
    "a cast to a date": "kind::DATE > DATE '2024-01-01'",
    "text against a number": "kind > 5",
    "a division": "10 / n > 1",
    "an integer division": "10 // n > 1",
    "a remainder": "10 % n > 1",
    "an overflow": "n + n > 1",
    "a product": "big * big > 1",
    "a negation": "-big > 1",
    "an absolute value": "abs(big) > 1",
    "a root": "sqrt(n) > 1",
    "a logarithm": "ln(n) > 1",
    "a power": "pow(n, n) > 1",
    "a narrow cast": "big::TINYINT > 1",
    "a day too far": "day + n > DATE '2024-01-01'",
    "an interval too far": "at + INTERVAL 1 YEAR * n > at",
    "a substring": "substr(kind, n, n) = 'x'",
    "in a list": "kind::INTEGER IN (1, 2)",
    "in a long list": f"kind::INTEGER IN ({', '.join(map(str, range(200)))})",
    "twice the same": "kind::INTEGER > 5 AND kind::INTEGER < 50",
    "in a choice": "CASE WHEN amount > 0 THEN kind::INTEGER ELSE 1 END > 0",
    "between": "kind::INTEGER BETWEEN 1 AND 3",
    "a comparison of columns": "kind = n",
}


@pytest.fixture(scope="module")
def full() -> sparseq.Store:
    return sparseq.create(None, {"visits": VISITS, "events": EVENTS}, user="who", seed=1)


@pytest.fixture(scope="module")
def empty() -> sparseq.Store:
    no_visits = {"visits": VISITS.slice(0, 0)}
    return sparseq.create(None, {**no_visits, "events": EVENTS.slice(0, 0)}, user="who", seed=1)


@pytest.mark.parametrize(
    ("name", "form"),
    one_in(
        7,
        itertools.product(
            FAILING,
            [
                "SELECT count(*) AS v FROM events WHERE {e}",
                "SELECT countif({e}) AS v FROM events",
                "SELECT count(*) FILTER (WHERE {e}) AS v FROM events",
                "SELECT count(DISTINCT who) AS v FROM events WHERE NOT ({e})",
                "SELECT sum(CASE WHEN {e} THEN 1 ELSE 0 END) AS v FROM events",
                "SELECT count(*) AS v FROM (SELECT who, {e} AS f FROM events) WHERE f",
                "SELECT count(*) AS v FROM (SELECT who, countif({e}) AS c FROM events "
                "GROUP BY who)",
                "SELECT count(*) AS v FROM events JOIN visits ON events.who = visits.who AND {e}",
                "SELECT {e} AS k, count(*) AS v FROM events GROUP BY k",
                "SELECT count(*) AS v FROM (SELECT who, row_number() OVER (PARTITION BY who ORDER "
                "BY {e}) AS r FROM events)",
            ],
        ),
    ),
)
def test_a_row_that_fails_counts_for_nothing_and_raises_nothing(
    full: sparseq.Store, empty: sparseq.Store, name: str, form: str
) -> None:
    sql = form.format(e=FAILING[name])
    assert outcome(full, sql) == outcome(empty, sql)


def outcome(con: sparseq.Store, sql: str) -> str:
    """What an analyst sees besides the noised values: it must be the same on no rows at all."""
    try:
        return str(con.sql(sql).arrow().schema)
    except QueryRefused as refused:
        return refused.message


def test_public_tables_alone_do_not_keep_the_store_busy() -> None:
    con = shop.store()
    many = ", ".join(f"items AS i{n}" for n in range(20))  # 60 ** 20 rows
    sql = f"SELECT count(*) FROM events WHERE qty < (SELECT sum(i0.half) FROM {many} {{}})"
    with pytest.raises(QueryRefused, match="rows in a join of public tables or answers; the limit"):
        con.lower(sql.format("WHERE i1.half + i2.half * i3.half > i4.half - i19.half"))
    con.lowering.public.patience = 0.01
    equal = " AND ".join(f"i{n}.half < 9 = (i{n + 1}.half < 9)" for n in range(4))
    with pytest.raises(QueryRefused, match="public tables takes too long"):
        con.lower(
            "SELECT count(*) FROM events WHERE qty < (SELECT sum(i0.half) FROM items i0, "
            f"items i1, items i2, items i3 WHERE {equal.replace('i4', 'i0')})"
        )
    con.lowering.public.patience = 30.0
    assert con.lower("SELECT count(*) FROM events WHERE qty < (SELECT max(half) FROM items)")
    with pytest.raises(QueryRefused, match="40 joins; the limit is 32"):
        con.lower(f"SELECT count(*) FROM events, {many}, {many.replace(' AS i', ' AS j')}")


def named_functions(n: int) -> list[str]:
    names = {*Dialect.Parser.FUNCTIONS, *Dialect.Parser.FUNCTION_PARSERS, "date_format"}
    calls = ("{}()", "{}(day)", "{}(day, '%Y')", "{}(*)", "{}(kind, 'a', 'b')")
    hard = ["REGEXP_REPLACE", "REGR_COUNT", "VAR_MAP", "WIDTH_BUCKET", "J_S_O_N_OBJECT", "COUNT"]
    return [call.format(name) for name in [*hard, *sorted(names)[::n]] for call in calls]


def answered_or_refused(calls: list[str]) -> int:
    refused = 0
    with sparseq.create(None, {"t": EVENTS}, user="who", keys={"kind": ["gift"]}) as con:
        for text in calls:
            for asked in ("SELECT {} AS k, count(*) FROM t GROUP BY 1", "SELECT {} AS y FROM t"):
                try:
                    con.lower(asked.format(text))
                except QueryRefused as error:
                    refused += bool(error.message)
    return refused


def test_a_function_that_the_parser_knows_and_we_do_not_is_refused_in_words() -> None:
    """With too few arguments, too; the deep test has all of them."""
    assert answered_or_refused(named_functions(60)) > 100


@pytest.mark.deep
def test_every_function_that_the_parser_knows_is_answered_or_refused() -> None:
    assert answered_or_refused(named_functions(1)) > 5_000


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("SELECT count(* FROM t", "line 1, column 16, at 'FROM'"),
        ("SELECT count(*)\nFROM t\nGROUP kind", "line 3, column 7, at 'kind'"),
    ],
)
def test_a_parse_error_says_its_place(query: str, place: str) -> None:
    with (
        sparseq.create(None, {"t": EVENTS}, user="who") as con,
        pytest.raises(NotSql, match=re.escape(place)),
    ):
        con.sql(query)
