"""An answer is one table: what reads Arrow takes it, and every form of it says the same."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fastexcel
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browser import Page, browse, loosened, needs_browser

import sparseq
from sparseq.answers.answer import Answer
from sparseq.answers.answer_facts import Facts
from sparseq.answers.workbook import workbook

FIRST = dt.date(2024, 1, 1)
ROWS = pa.table(
    {
        "who": [i % 500 for i in range(10_000)],
        "kind": ["<b>", "gift"] * 5_000,
        "day": [FIRST + dt.timedelta(days=i % 10) for i in range(10_000)],
    }
)
DAYS = "day BETWEEN DATE '2024-01-01' AND DATE '2024-01-10'"


def _store(in_or_out: bool) -> sparseq.Store:
    return sparseq.create(
        None,
        {"t": ROWS},
        user="who",
        time="day",
        seed=1,
        purposes=[sparseq.Questions(in_or_out=in_or_out)],
    )


@pytest.fixture(scope="module", params=[False, True], ids=["weighted", "in or out"])
def con(request: pytest.FixtureRequest) -> sparseq.Store:
    return _store(request.param)


@pytest.fixture(scope="module")
def daily(con: sparseq.Store) -> Answer:
    return con.sql(f"SELECT day, count(*) AS n FROM t WHERE {DAYS} GROUP BY day ORDER BY day")


@pytest.fixture(scope="module")
def both(con: sparseq.Store) -> Answer:
    return con.sql(
        f"SELECT kind, day, count(*) AS n FROM t WHERE kind IN ('<b>', 'gift') AND {DAYS} "
        "GROUP BY kind, day"
    )


READERS: dict[str, Callable[[Answer], pa.Table]] = {
    "pyarrow": pa.table,
    "polars": lambda answer: pl.DataFrame(answer).to_arrow(),
    "pandas": lambda answer: pa.Table.from_pandas(pd.DataFrame.from_arrow(answer)),
    "duckdb": lambda answer: duckdb.sql("FROM answer").to_arrow_table(),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_reads_arrow_takes_it_as_it_is(daily: Answer, reader: str) -> None:
    table = READERS[reader](daily)
    assert table.to_pydict() == daily.arrow().to_pydict()


def test_ibis_takes_it() -> None:
    ibis = pytest.importorskip("ibis")
    daily = _store(False).sql(f"SELECT day, count(*) AS n FROM t WHERE {DAYS} GROUP BY day")
    assert ibis.memtable(daily).count().execute() == 10


def test_every_form_is_the_same_table(daily: Answer, tmp_path: Path) -> None:
    rows = daily.arrow().to_pylist()
    assert daily.rows() == list(daily) == rows
    assert len(daily) == 10
    assert daily.pl().to_dicts() == rows
    daily.to_parquet(tmp_path / "a.parquet")
    written = pq.read_table(tmp_path / "a.parquet")
    assert written.to_pylist() == rows
    assert json.loads(written.schema.metadata[b"sparseq"])["query"] == daily.facts.query
    with pytest.raises(sparseq.ParameterError, match="can't write"):
        daily.to_parquet(tmp_path / "none" / "a.parquet")


@pytest.mark.parametrize(
    "key", ["2024-01-03", dt.date(2024, 1, 3), dt.datetime(2024, 1, 3), "2024-01-03 00:00:00"]
)
def test_a_row_by_its_key(daily: Answer, key: Any) -> None:
    assert daily[key] == daily.rows()[2]


def test_rows_by_several_keys(both: Answer) -> None:
    row = both["gift", "2024-01-03"]
    assert (row["kind"], row["day"]) == ("gift", dt.date(2024, 1, 3))
    for wrong in ["gift", "no", ("gift", "2024-02-01"), ("gift", "x"), ("gift", 3), (1, 2, 3)]:
        with pytest.raises(KeyError) as caught:
            both[wrong]
        assert isinstance(caught.value, sparseq.ParameterError)


def test_an_answer_without_keys_has_no_rows_by_key(con: sparseq.Store) -> None:
    with pytest.raises(KeyError, match="no keys"):
        con.sql("SELECT count(*) AS n FROM t")[0]


def test_null_and_months_are_keys() -> None:
    facts = Facts(1, None, "", ("n",), ("rows",), (1.0,), (1.0,), (1.0,), 2, 0.95, 0.5, 20, False)
    months = [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None]
    table = pa.table({"month": months, "n": [1, 2], "n_error": [1.0, 1.0]})
    answer = Answer(table, facts)
    assert [answer["2024-01-01"]["n"], answer[None]["n"]] == [1, 2]
    assert answer[dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]["n"] == 1


def test_a_prompt_shows_an_aligned_table(daily: Answer) -> None:
    lines = repr(daily).splitlines()
    assert lines[0].split()[:2] == ["day", "n"]
    assert lines[2].startswith("2024-01-01")
    assert "NOT PRIVATE" in repr(daily)
    assert f"release {daily.facts.release}: " in lines[-1]
    assert "95 % confidence" in lines[-1]


def test_only_the_first_rows_are_shown(con: sparseq.Store) -> None:
    many = ", ".join(map(str, range(100)))
    answer = con.sql(f"SELECT who, count(*) AS n FROM t WHERE who IN ({many}) GROUP BY who")
    assert "… 60 more rows" in repr(answer)
    assert len(answer) == 100
    assert answer._repr_html_().count("<svg") == 40


def test_a_notebook_draws_its_intervals(both: Answer) -> None:
    page = Page(both._repr_html_())
    drawn = [attributes for tag, attributes in page.found if tag == "svg"]
    assert len(drawn) == len(both)
    assert "<b>" in page.text["td"]  # a key is text, whatever it looks like
    for row, rect in zip(both, _rects(both._repr_html_()), strict=True):
        width = row.get("n_high", row["n"] + row["n_error"]) - row.get(
            "n_low", row["n"] - row["n_error"]
        )
        most = max(one.get("n_high", one["n"] + one["n_error"]) for one in both) - min(
            0.0, *(one.get("n_low", one["n"] - one["n_error"]) for one in both)
        )
        assert rect == pytest.approx(width / most * 172, abs=0.1)


def _rects(html: str) -> list[float]:
    return [float(part.split('width="')[1].split('"')[0]) for part in html.split("<rect")[1:]]


@needs_browser
def test_a_browser_shows_the_plot(daily: Answer, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text(loosened(daily.plot().html(), "document.title = 'shown';"))
    seen = browse(page, tmp_path / "profile")
    assert "<title>shown</title>" in seen
    assert seen.count("<path") >= 2  # the values, and the band about them


def test_a_plot_is_over_its_key(daily: Answer, both: Answer, con: sparseq.Store) -> None:
    """Lines over a time, bars over names in the order of the answer; each with its interval."""
    assert "1 Jan 2024" in repr(daily.plot())
    lines = both.plot().figure.series
    assert [s.name for s in lines] == ["<b>", "gift"]
    assert "<iframe" in both.plot()._repr_html_()
    kinds = con.sql(
        "SELECT kind, count(*) AS n FROM t WHERE kind IN ('<b>', 'gift') GROUP BY 1 ORDER BY 1 DESC"
    )
    (bars,) = kinds.plot("Kinds").figure.series
    assert bars.x.tolist() == ["gift", "<b>"]
    for drawn, rows in ((lines[1], [r for r in both if r["kind"] == "gift"]), (bars, list(kinds))):
        low, high = drawn.band
        for row, value, left, right in zip(rows, drawn.values, low, high, strict=True):
            assert value == row["n"]
            assert left == row.get("n_low", row["n"] - row["n_error"])
            assert right == row.get("n_high", row["n"] + row["n_error"])
    table = pa.table({"k": ["NULL", None], "n": [1, 2], "n_error": [1.0, 1.0]})
    assert Answer(table, kinds.facts).plot().figure.places().tolist() == ["NULL", "(NULL)"]
    assert "<h1>Kinds</h1>" in kinds.plot("Kinds").html()
    assert both.plot(chart="bars").figure.is_named
    with pytest.raises(sparseq.ParameterError, match="none"):
        kinds.plot(chart="lines")
    one = con.sql("SELECT count(*) AS n FROM t").plot().figure
    assert one.places().tolist() == ["n"]


def test_a_workbook_has_values_and_no_formula() -> None:
    """What looks like a formula is text; a whole number that no workbook holds is its digits."""
    days = [dt.date(2024, 1, 3), dt.date(1066, 10, 14), None]
    names = ["=1+1", "http://a.b", "x"]
    table = pa.table({"k": names, "day": days, "n": [1, 2**60, None], "x": [0.5, 1e308, math.nan]})
    content = workbook(table, "=2", ["+3"])
    first, about = (
        fastexcel.read_excel(content).load_sheet(k, header_row=None, dtypes="string").to_arrow()
        for k in range(2)
    )
    rows = [list(row.values()) for row in first.to_pylist()]
    assert [row[0] for row in rows] == ["k", *names]
    assert rows[1][1].startswith("2024-01-03")
    assert rows[2][1:3] == ["1066-10-14", str(2**60)]
    assert rows[3][1:] == [None, None, None]
    assert [next(iter(row.values())) for row in about.to_pylist()] == ["=2", "+3"]
    with zipfile.ZipFile(io.BytesIO(content)) as parts:
        assert not any(b"<f>" in parts.read(name) for name in parts.namelist())


def test_bound_values_are_the_literals_and_the_release_is_theirs(con: sparseq.Store) -> None:
    day = dt.date(2024, 1, 3)
    asked = [
        con.sql(f"SELECT count(*) AS n FROM t WHERE kind = {kind} AND day >= {first}", params)
        for kind, first, params in [
            ("?", "?", ["it's", day]),
            ("$1", "$2", ("it's", day)),
            ("$k", ":d", {"k": "it's", "d": day}),
            ("'it''s'", "DATE '2024-01-03'", None),
        ]
    ]
    assert len({answer.facts.query for answer in asked}) == 1
    first = con.sql("SELECT count(*) AS n FROM t WHERE kind = ?", ["a"], request_id="one")
    same = con.sql("SELECT count(*) AS n FROM t WHERE kind = 'a'", request_id="one")
    assert first.facts == same.facts


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ([], "no value for the parameter 1"),
        (["a", "b"], "no parameter 2"),
        ("a", "a list of values"),
        ([object()], "a parameter is a object"),
        ([float("inf")], "a parameter is inf"),
        ({"k": "a"}, "no value for the parameter 1"),
    ],
)
def test_params_that_do_not_fit(con: sparseq.Store, params: Any, said: str) -> None:
    asked = len(con.releases())
    with pytest.raises(sparseq.ParameterError, match=said):
        con.sql("SELECT count(*) AS n FROM t WHERE kind = ?", params)
    assert len(con.releases()) == asked


def test_explain_says_what_would_be_asked(con: sparseq.Store) -> None:
    asked = len(con.releases())
    found = con.explain("SELECT count(*) AS n FROM t WHERE kind = ?", params=["gift"])
    assert found.facts["query"] == "SELECT count(*) AS n FROM t WHERE kind = 'gift'"
    assert "Nothing was asked, nothing charged." in repr(found)
    assert "\x1b" not in repr(found)
    assert len(con.releases()) == asked
    assert con.tables == ("t",)
    assert con.schema() == con.schema("t")


def test_what_intervals_rest_on_is_said_in_one_line() -> None:
    weighted, in_or_out = _store(False), _store(True)
    people = weighted.sql("SELECT count(DISTINCT who) AS n FROM t").interval
    assert (people.kind, people.confidence) == ("exact", 0.95)
    rows = weighted.sql(f"SELECT day, count(*) AS n FROM t WHERE {DAYS} GROUP BY 1", confidence=0.9)
    assert rows.interval.kind == "assumed"
    assert str(rows.interval).startswith(
        "all 10 intervals contain the true value for everybody, with 90 % confidence; assumes that"
    )
    assert rows.interval.line.endswith("confidence (assumed)")
    active = in_or_out.sql("SELECT count(*) AS n FROM t").interval
    assert active.kind == ""
    assert "people whose budget is used up are left out" in active.line
    assert not any("\n" in str(one) for one in (people, rows.interval, active))


def test_price_and_precision_make_the_noise_finer() -> None:
    con = _store(False)
    query = "SELECT count(*) AS n FROM t"
    usual, dear = (con.sql(query, price=price, scale=40) for price in (None, 4))
    assert dear.facts.price == 4
    pilots = 4.3125 * 5 / 42  # and the rest of 4 + 5/16 is the answer's
    assert dear.sigma == pytest.approx(usual.sigma / math.sqrt(4.3125 - pilots))
    precise = con.sql(query, precision=0.05)
    assert precise.facts.price != 1
    with pytest.raises(sparseq.ParameterError, match="same knob"):
        con.sql(query, price=2, precision=0.1)
