"""Values about few people are not shown: by noised counts alone, everywhere, and totals stay."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import sparseq
from sparseq.base.errors import ParameterError
from sparseq.cli.app import sparseq as main
from sparseq.released.render import schema_of
from sparseq.released.result_columns import columns_of, shown_columns
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens
from sparseq.store.curator import raise_least_people

GROUPS, EACH = 40, 20
KEYS = [f"g{i:02}" for i in range(GROUPS)]
ROWS = pa.table(
    {
        "who": [*range(GROUPS * EACH)] * 2,
        "g": [KEYS[i % GROUPS] for i in range(GROUPS * EACH)] * 2,
        "x": [float(i % 7) for i in range(GROUPS * EACH * 2)],
    }
)
COUNTS = "SELECT g, count(DISTINCT who) AS people, count(*) AS n FROM t GROUP BY g"


def made(path: Path | None = None, least: int = 1, **options: object) -> sparseq.Store:
    said = {"keys": {"g": KEYS}, "bounds": {"x": (0, 10)}, "seed": 4} | options
    return sparseq.create(path, {"t": ROWS}, user="who", least_people=least, **said)


def test_what_is_hidden_is_told_by_the_noised_count_alone() -> None:
    """All groups have 20 people: an exact count would hide all of them, or none."""
    with made() as con:
        people = con.sql(COUNTS).arrow()["people"].to_pylist()
        counts = np.array([math.nan if n is None else n for n in people])
        raise_least_people(con, EACH)
        later = con.sql(COUNTS)
        assert later.facts.repeated
        assert con.released == 1
        hidden = ~(counts >= EACH)
        assert 5 < hidden.sum() < GROUPS - 5
        for name in ("people", "n"):
            shown = later.arrow()[name].to_pylist()
            marks = later.arrow()[f"{name}_suppressed"].to_pylist()
            assert [v is None for v in shown] == hidden.tolist()
            assert marks == ["< 20 people" if h else None for h in hidden]
            assert later.arrow()[name].type == pa.int64()
            assert later.arrow()[f"{name}_low"].null_count == hidden.sum()


def test_totals_are_of_all_cells_and_no_condition_tells_of_a_hidden_one() -> None:
    total = f"SELECT sum(n) AS n, min(n) AS least, count(*) AS c FROM ({COUNTS}) AS q"
    with made() as con:
        before = con.sql(total).rows()[0]["n"]
        raise_least_people(con, EACH)
        (after,) = con.sql(total).rows()
        assert (after["n"], after["least"], after["c"]) == (before, None, GROUPS)
        hidden = {r["g"] for r in con.sql(COUNTS).rows() if r["n"] is None}
        assert hidden
        for text in (
            f"{COUNTS} HAVING count(*) < 1000",
            f"SELECT g FROM ({COUNTS}) AS q WHERE n < 1000",
            f"SELECT g, n FROM ({COUNTS}) AS q QUALIFY n < 1000 AND sum(n) OVER () > 0",
        ):
            assert {r["g"] for r in con.sql(text).rows()} == set(KEYS) - hidden
        case = "SELECT g, CASE WHEN count(*) > 20 THEN 'many' ELSE 'few' END AS c FROM t GROUP BY g"
        counted = {r["g"] for r in con.sql(case).rows() if r["c"] is None}
        assert 5 < len(counted) < GROUPS - 5
        shares = con.sql(f"SELECT g, n / sum(n) OVER () AS s, sum(n) OVER () AS n FROM ({COUNTS})")
        assert {r["g"] for r in shares.rows() if r["s"] is None} == hidden
        assert {r["n"] for r in shares.rows()} == {before}


def test_a_noised_value_that_is_grouped_by_is_hidden_where_a_row_of_the_group_is() -> None:
    with made(least=EACH) as con:
        known = [r["n"] for r in con.sql(COUNTS).rows() if r["n"] is not None]
        own = con.sql(f"SELECT n, count(*) AS c FROM ({COUNTS}) AS q GROUP BY n").rows()
        shown = [r["n"] for r in own if r["n"] is not None]
        assert 0 < len(shown) == len(set(shown))
        assert set(shown) < set(known)  # some counts are those of a hidden group, too
        assert sum(r["c"] for r in own) == GROUPS
        all_ = f"SELECT n > -9999 AS any_, count(*) AS c FROM ({COUNTS}) AS q GROUP BY any_"
        (row,) = con.sql(all_).rows()
        assert (row["any_"], row["c"]) == (None, GROUPS)


def test_the_count_of_people_is_of_what_the_value_is_about() -> None:
    """All people have rows in `all_`; one of them has what `one` and `sum` are about."""
    with made(least=300, kappa=1024.0) as con:
        (row,) = con.sql(
            "SELECT count(*) AS all_, count(*) FILTER (WHERE who = 7) AS one, "
            "sum(CASE WHEN x > 5 AND g = 'g07' THEN x END) AS some FROM t"
        ).rows()
        assert row["all_"] is not None
        assert row["one"] is None
        assert row["some"] is None
        bins = con.sql("SELECT histogram(x, [0, 1, 7, 9]) AS n FROM t").rows()
        assert [b["n"] is None for b in bins] == [True, False, True]


def test_an_answer_has_the_columns_that_were_told_before() -> None:
    with made(least=EACH) as con:
        for text in (COUNTS, f"SELECT g, n FROM ({COUNTS}) AS q", "SELECT avg(x) AS m FROM t"):
            table = con.sql(text).arrow()
            assert schema_of(con.lower(text), True).names == table.schema.names
        assert columns_of(table) == ["m"]
        assert shown_columns(table, "plain").column_names == ["m"]
        assert "people are counted" not in repr(con.explain(COUNTS))
        assert "people of COUNT(*) are counted" in repr(con.explain("SELECT count(*) FROM t"))


@pytest.mark.deep
def test_nobody_is_shown_at_the_rate_of_noise() -> None:
    """2,000 cells of nobody: the rate is that of noise above 10, within 4 standard deviations."""
    empty = [f"e{i}" for i in range(2_000)]
    said = [sparseq.Questions(in_or_out=True, counts=20)]
    with made(least=10, keys={"g": empty}, purposes=said) as con:
        answer = con.sql("SELECT g, count(DISTINCT who) AS people FROM t GROUP BY g")
        shown = len(empty) - answer.arrow()["people"].null_count
        rate = math.erfc(9.5 / answer.sigma / math.sqrt(2)) / 2  # rounded to whole people
        sd = math.sqrt(rate * (1 - rate) / len(empty))
        assert abs(shown / len(empty) - rate) < 4 * sd


def test_it_is_raised_and_never_lowered(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    made(path, least=5).close()
    run = CliRunner().invoke
    assert run(main, ["curator", str(path), "least-people", "400"]).exit_code == 0
    lower = run(main, ["curator", str(path), "least-people", "10"])
    assert lower.exit_code != 0
    assert "never lowered" in lower.output
    with sparseq.connect(path) as con:
        assert con.promise.least_people == 400
        assert con.promise.card()["accounting"]["not_shown"].startswith("values about fewer than 4")
        with pytest.raises(ParameterError):
            raise_least_people(con, 400)
    told = run(main, ["sql", str(path), "--format", "json", COUNTS]).output
    rows = json.loads(told[told.index("{") :])["rows"]
    assert {r["n_suppressed"] for r in rows} == {"< 400 people"}
    shown = run(main, ["sql", str(path), "--columns", "plain", COUNTS]).output
    assert shown.count("< 400 people") == 2 * GROUPS
    with pytest.raises(ParameterError):
        made(least=-1)


def test_a_server_hides_it_too_and_finds_bounds_once() -> None:
    httpx = pytest.importorskip("httpx")
    app = pytest.importorskip("sparseq.server.http.app")

    async def told() -> list[dict[str, Any]]:
        service = Service(made(least=400, bounds={}), Tokens(None))
        secret = service.tokens.create("ada", Role.ANALYST)
        transport = httpx.ASGITransport(app.application(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            client.headers["Authorization"] = f"Bearer {secret}"
            texts = [COUNTS, "SELECT sum(x) AS s FROM t", "SELECT sum(x) AS s FROM t"]
            found = [(await client.post("/v1/query", json={"sql": t})).json() for t in texts]
        await service.close()
        return found

    counts, total, again = asyncio.run(told())
    assert {r["n_suppressed"] for r in counts["rows"]} == {"< 400 people"}
    assert total["rows"][0]["s"] is not None
    assert again["repeated"]
    assert again["release"] == total["release"] == 4
