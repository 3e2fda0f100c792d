"""Columns of lists: kept as they come, asked about, and unnested for each person by itself.

The judge is DuckDB itself, on the rows of the file.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compare import check_same
from sampled import one_in
from shop import FINE, answer

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.language.types import MOST_LISTED
from sparseq.load.load_rows import IncomingRows
from sparseq.load.read_schema import Declarations
from sparseq.question.plan import calibrate
from sparseq.stream.charge_amounts import price

WORDS = ("a", "b", "é", "", None)
AMONG = "IN ('a', 'b', 'é', '', 'never')"


def _rows(number: int = 600) -> pa.Table:
    rng = random.Random(1)

    def some(values: tuple[object, ...], most: int) -> list[object] | None:
        many = rng.randrange(most)
        return None if rng.random() < 0.1 else [rng.choice(values) for _ in range(many)]

    return pa.table(
        {
            "who": [rng.randrange(60) for _ in range(number)],
            "tags": pa.array([some(WORDS, 5) for _ in range(number)], pa.list_(pa.string())),
            "nums": pa.array(
                [some((1, 2, 3, None), 4) for _ in range(number)], pa.large_list(pa.int32())
            ),
            "xs": pa.array(
                [[rng.choice((0.5, 1.0, float("nan"), None))] for _ in range(number)],
                pa.list_(pa.float64(), 1),
            ),
            "k": [rng.choice("abc") for _ in range(number)],
        }
    )


@pytest.fixture(scope="module")
def con() -> Iterator[sparseq.Store]:
    public = {"sets": pa.table({"name": ["x", "y"], "of": [["a", "b"], ["b", None]]})}
    with sparseq.create(
        None, {"posts": _rows()}, user="who", kappa=1000, seed=1, public=public
    ) as made:
        yield made


@pytest.fixture(scope="module")
def judge() -> duckdb.DuckDBPyConnection:
    judge = duckdb.connect()
    judge.register("posts", _rows())
    sets = "(VALUES ('x', ['a', 'b']), ('y', ['b', NULL])) AS t(name, of)"
    judge.execute(f"CREATE TABLE sets AS FROM {sets}")
    return judge


VALUES = "(SELECT who, k, unnest(tags) AS tag FROM posts)"
ASKED = (
    "SELECT count(*) n FROM posts WHERE contains(tags, 'a') OR list_contains(nums, 3)",
    "SELECT count(*) n FROM posts WHERE NOT array_contains(tags, k) OR list_has(tags, 'é')",
    "SELECT countif(len(tags) > 2) a, countif(array_length(tags) = 1) b, countif(cardinality(nums) "
    "= 0) c, countif(length(tags) IS NULL) d, count(xs) e FROM posts",
    "SELECT countif('a' = ANY(tags)) a, countif(NOT (k = ANY(tags))) b, countif((k = ANY(tags)) IS "
    "NULL) c, countif((NULL = ANY(tags)) IS NULL) d, countif(2 = ANY(nums)) e FROM posts",
    "SELECT countif(tags[1] = 'a') a, countif(nums[-1] = 2) b, countif(list_extract(tags, nums[1]) "
    "= 'b') c, countif(xs[1] > 0.7) d, countif(tags[9] IS NULL) e FROM posts",
    "SELECT tags[1] AS t, count(*) n FROM posts WHERE tags[1] IN ('a', 'b') GROUP BY 1",
    f"SELECT tag, count(*) n, count(DISTINCT who) u FROM {VALUES} WHERE tag {AMONG} GROUP BY tag",
    f"SELECT tag, count(*) n FROM (SELECT unnest(tags) AS tag FROM posts WHERE k = 'a') t WHERE "
    f"tag {AMONG} GROUP BY tag",
    f"SELECT tag, count(*) n FROM posts, unnest(posts.tags) AS t(tag) WHERE tag {AMONG} GROUP BY 1",
    f"SELECT t.tag, k, count(*) n FROM posts AS P CROSS JOIN UNNEST(tags) AS t(tag) WHERE t.tag "
    f"{AMONG} AND k IN ('a', 'b') GROUP BY ALL",
    f"SELECT tag, count(*) n FROM posts p, LATERAL (SELECT unnest(p.tags) AS tag) t WHERE tag "
    f"{AMONG} GROUP BY 1",
    "SELECT sum(x) s, count(*) n FROM posts, LATERAL unnest(nums) AS t(x) WHERE x BETWEEN 0 AND 3",
    "SELECT c, count(*) n FROM (SELECT who, count(DISTINCT x) AS c FROM posts, unnest(nums) t(x) "
    "GROUP BY who) WHERE c BETWEEN 0 AND 3 GROUP BY c",
    f"SELECT a.tag, count(*) n FROM {VALUES} a JOIN {VALUES} b USING (who, tag) WHERE a.tag "
    f"{AMONG} GROUP BY a.tag",
    f"SELECT count(*) n FROM {VALUES} t JOIN posts p ON p.who = t.who AND contains(p.tags, t.tag)",
    "SELECT count(*) n FROM (SELECT DISTINCT who, unnest(tags) AS tag FROM posts)",
    "SELECT r, count(*) n FROM (SELECT who, row_number() OVER (PARTITION BY who ORDER BY tag) AS r "
    f"FROM {VALUES}) WHERE r IN (1, 2, 3) GROUP BY r",
    "SELECT name, count(*) n FROM posts JOIN (SELECT name, unnest(of) AS tag FROM sets) s ON "
    "contains(tags, tag) GROUP BY name",
)


@pytest.mark.parametrize("sql", one_in(3, ASKED))
def test_an_answer_is_duckdbs(
    con: sparseq.Store, judge: duckdb.DuckDBPyConnection, sql: str
) -> None:
    theirs = judge.sql(sql).to_arrow_table()
    assert any(any(row.values()) for row in theirs.to_pylist())
    check_same(answer(con, sql, FINE), theirs, in_order=False, exact=True)


REFUSED = {
    "SELECT count(*) FROM posts WHERE CAST(tags AS VARCHAR) = 'a'": "a list can't be cast",
    "SELECT count(*) FROM posts WHERE contains(tags, 5)": "does not take list, integer",
    "SELECT count(*) FROM posts WHERE unnest(tags) = 'a'": "makes rows here",
    "SELECT tags, count(*) FROM posts GROUP BY tags": "are not public",
    "SELECT count(*) FROM (SELECT unnest(tags) a, unnest(nums) b FROM posts)": "another unnest",
    "SELECT count(*) FROM (SELECT a.who, unnest(a.tags) t FROM posts a "
    "JOIN posts b USING (who))": "beside a join",
    "SELECT count(*) FROM posts p LEFT JOIN unnest(p.tags) AS t(tag) ON true": "its own table",
    "SELECT count(*) FROM posts, unnest(tags) WITH ORDINALITY AS t(tag, i)": "beside its own table",
    "SELECT count(*) FROM posts, unnest(who) AS t(x)": "is no list",
    "SELECT count(*) FROM posts WHERE tags[k] = 'a'": "a place is a whole number",
    "SELECT count(*) FROM posts WHERE tags[1:2] IS NULL": "not answered",
    "SELECT count(*) FROM posts WHERE 'a' < ANY(tags)": "not answered",
    "SELECT max(tags) FROM posts": "one person",
}


@pytest.mark.parametrize("sql", one_in(2, REFUSED))
def test_what_has_no_answer_is_refused(con: sparseq.Store, sql: str) -> None:
    with pytest.raises(QueryRefused, match=REFUSED[sql]):
        con.lower(sql)


MOST = 12


def _charged(sizes: dict[int, list[int]], sql: str) -> dict[int, int]:
    """Return what each person is charged whose lists have so many values each."""
    rows = pa.table(
        {
            "who": [who for who, own in sizes.items() for _ in own],
            "tags": [["a"] * n for own in sizes.values() for n in own],
        },
        pa.schema([("who", pa.int64()), ("tags", pa.list_(pa.string()))]),
    )
    with sparseq.create(None, {"posts": rows}, user="who", seed=1, most={"work": MOST}) as con:
        plan = calibrate(con.lower(sql), con.guarantee, FINE)
        users, found = price(
            plan, con.stream.engine.contributions(plan, con.stream.people.inside())
        )
        names = dict(con.backend.database.execute("SELECT _user, id FROM ledger.users").fetchall())
        return {names[u]: int(c) for u, c in zip(users.tolist(), found.tolist(), strict=True) if c}


def test_who_has_too_many_values_is_out_by_the_own_rows_alone() -> None:
    sql = "SELECT count(*) FROM posts, unnest(tags) AS t(tag)"
    sizes = {1: [12], 2: [5, 7], 3: [13], 4: [6, 7], 5: [0], 6: [1, 2]}
    found = _charged(sizes, sql)
    assert found.keys() == {1, 2, 6}
    assert found[1] == found[2] == pytest.approx(16 * found[6], rel=2e-3)  # rounded up to units
    assert _charged({2: [5, 7], 3: [13]}, sql) == {2: found[2]}


def test_lists_of_json_and_of_parquet_are_kept_and_cut(tmp_path: Path) -> None:
    long = list(range(MOST_LISTED + 5))
    lines = [
        {"who": 1, "tags": ["a", None, "b"], "n": [1, 2.5], "k": [7], "o": [True], "long": long},
        {"who": 2, "tags": [], "n": None, "k": [2**70, 1], "o": [], "long": [1]},
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with sparseq.create(tmp_path / "s.sparseq", str(tmp_path / "p.jsonl"), user="who") as con:
        types = {c.name: c.type for c in con.catalog.tables[0].columns}
        ((name,),) = con.backend.database.execute(
            "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'by_user'"
        ).fetchall()
        kept = f"SELECT tags, n, k, o, len(long) FROM by_user.{name}"
        rows = con.backend.database.execute(kept).fetchall()
    assert types == {
        "who": "BIGINT",
        "tags": "VARCHAR[]",
        "n": "DOUBLE[]",
        "k": "BIGINT[]",
        "o": "BOOLEAN[]",
        "long": "BIGINT[]",
    }
    assert rows == [
        (["a", None, "b"], [1.0, 2.5], [7], [True], MOST_LISTED),
        ([], None, [None, 1], [], 1),
    ]


def test_lists_of_pandas_are_kept_value_by_value() -> None:
    rows = pd.DataFrame(
        {
            "who": [1, 2, 3],
            "tags": [["a", None], None, "b"],
            "xs": [np.array([0.5, np.nan]), np.array([1.0]), [2]],
        }
    )
    with sparseq.create(None, {"p": rows[:2]}, user="who", seed=1) as con:
        con.ingest(rows[2:])
        kept = "SELECT tags, xs::VARCHAR FROM by_user.p ORDER BY _user"
        found = con.backend.database.execute(kept).fetchall()
    assert found == [(["a", None], "[0.5, nan]"), (None, "[1.0]"), (None, "[2.0]")]


@pytest.mark.parametrize("text", [False, True])
def test_lists_that_are_cut_are_told(text: bool) -> None:
    long = [1] * (MOST_LISTED + 1)
    lists = [json.dumps(x) for x in (long, [1])] if text else [long, [1]]
    rows = IncomingRows(
        pa.table({"who": [1, 2], "k": lists}),
        user="who",
        declared=Declarations({"k": "BIGINT[]"} if text else {}),
    )
    with duckdb.connect() as con:
        rows.read(con, rows.usable(), "who")
        assert con.sql("SELECT list(len(k)) FROM staged").fetchall() == [([MOST_LISTED, 1],)]
    assert rows.told.messages() == ["k: 1 lists were cut to 1,000 values"]


def test_a_later_file_may_have_other_lists(tmp_path: Path) -> None:
    first = pa.table({"who": [1], "k": [[1]], "t": [["x"]], "s": ["old"]})
    later = pa.table({"who": [2], "k": [["5", "z"]], "t": ['["y"]'], "s": [["a", "b"]]})
    other = pa.table({"who": [3], "k": [7], "t": [["z"]], "s": ["new"]})
    for name, rows in (("later", later), ("other", other)):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    with sparseq.create(None, {"p": first}, user="who", seed=1) as con:
        con.ingest(tmp_path / "later.parquet")
        con.ingest(tmp_path / "other.parquet")
        kept = "SELECT k, t FROM by_user.p ORDER BY _user"
        found = con.backend.database.execute(kept).fetchall()
    assert found == [([1], ["x"]), ([5, None], ["y"]), (None, ["z"])]
