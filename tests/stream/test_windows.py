"""Stores with an account for each window of a person: docs/theorems/windows.md."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from sampled import one_in

import sparseq
from checks.stores import made_store
from sparseq.accounting import UNITS_PER_NORM
from sparseq.cli.app import sparseq as command_line
from sparseq.store import curator
from sparseq.stream.batches import Request

FIRST = dt.date(2024, 1, 1)
ASKED = (
    "SELECT count(*) AS n FROM t",
    "SELECT sum(x) AS s, count(*) AS n FROM t WHERE day >= '2024-01-20' AND day < '2024-03-01'",
    "SELECT avg(x) AS a FROM t WHERE x > 2",
    "SELECT date_trunc('month', day) AS m, count(*) AS n FROM t "
    "WHERE day BETWEEN '2024-01-01' AND '2024-03-31' GROUP BY 1",
    "SELECT count(DISTINCT who_month) AS n FROM t",
    "SELECT count(*) AS n FROM (SELECT who_month, count(*) AS c FROM t GROUP BY 1) WHERE c > 2",
)


def rows(seed: int = 0, people: int = 30, count: int = 600, days: int = 100) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "who": rng.integers(0, people, count),
            "day": [FIRST + dt.timedelta(days=int(d)) for d in rng.integers(0, days, count)],
            "x": rng.integers(0, 11, count).astype(float),
        }
    )


def by_month(table: pa.Table) -> pa.Table:
    """Write the pair of person and month into a column."""
    pairs = zip(table["who"].to_pylist(), table["day"].to_pylist(), strict=True)
    return table.append_column("who_month", pa.array([f"{w},{d:%Y-%m}-01" for w, d in pairs]))


def store(source: pa.Table, path: Path | None = None, **more: object) -> sparseq.Store:
    given = {"user": "who", "time": "day", "window": "month", "seed": 3, "norm_budget": 6.0}
    return made_store(path, source, table="t", bounds={"x": (0, 10)}, **given | more)  # type: ignore[arg-type]


def spent(con: sparseq.Store) -> dict[str, int]:
    database = con.backend.database  # type: ignore[attr-defined]
    names = database.execute("SELECT id FROM ledger.users ORDER BY _user").fetchall()
    accounts = con.stream.accounts
    return dict(zip((n for (n,) in names), accounts.spent.tolist(), strict=True))


@pytest.mark.parametrize("in_or_out", one_in(2, [True, False]))
def test_answers_and_charges_are_those_of_a_store_of_pairs(in_or_out: bool) -> None:
    """To the bit: with late rows, and after they have come."""
    windows = store(rows(), in_or_out=in_or_out)
    pairs = store(by_month(rows()), in_or_out=in_or_out, user="who_month", window=None)
    late = rows(1, 40, 50)
    for part in (0, 1):
        if part:
            windows.ingest(late)
            pairs.ingest(by_month(late))
        for sql in ASKED:
            one, other = windows.sql(sql), pairs.sql(sql)
            assert one.arrow().equals(other.arrow())
        assert spent(windows) == spent(pairs)
    assert len(set(spent(windows).values())) > 3


def test_a_person_is_counted_within_a_window() -> None:
    con = store(rows())
    counted = {
        "WHERE day BETWEEN '2024-01-05' AND '2024-01-31'",
        "WHERE day >= '2024-02-01' AND day < '2024-03-01'",
        "WHERE day = '2024-02-29'",
        "WHERE day BETWEEN '2024-01-01' AND '2024-03-31' GROUP BY day",
        "WHERE day BETWEEN '2024-01-01' AND '2024-03-31' GROUP BY date_trunc('month', day)",
    }
    across = {
        "",
        "WHERE day BETWEEN '2024-01-05' AND '2024-02-01'",
        "WHERE day >= '2024-02-01' AND day <= '2024-03-01'",
        "WHERE day >= '2024-02-01'",
        "WHERE day BETWEEN '2024-01-01' AND '2024-01-31' OR x > 3",
        "WHERE day BETWEEN '2024-01-01' AND '2024-03-31' GROUP BY date_trunc('quarter', day)",
        "WHERE day BETWEEN '2024-01-01' AND '2024-03-31' GROUP BY date_trunc('week', day)",
    }
    for where in counted:
        person, pair = (
            con.lower(f"SELECT count(DISTINCT {column}) AS n FROM t {where}")
            for column in ("who", "who_month")
        )
        assert person.measures[0].kind == pair.measures[0].kind
        assert person.relation == pair.relation
    for where in across:
        with pytest.raises(sparseq.QueryRefused, match="these are not public"):
            con.lower(f"SELECT count(DISTINCT who) AS n FROM t {where}")


@pytest.mark.parametrize(
    "months", [{1, 2, 36}, pytest.param(set(range(1, 37)), marks=pytest.mark.deep)], ids=len
)
def test_months_later_the_error_is_the_same(months: set[int]) -> None:
    """36 months of daily counts of people who come every day: each month has its own budget."""
    people, days, keys = 200, 3 * 365 + 1, 100
    each_day = [FIRST + dt.timedelta(days=d) for d in range(days)]
    looked_at = [d for d in each_day if 12 * (d.year - FIRST.year) + d.month in months]
    who = np.repeat(np.arange(people), days)
    table = pa.table({"who": who, "day": each_day * people, "k": who % keys})
    con = sparseq.create(
        None,
        {"t": table},
        user="who",
        time="day",
        window="month",
        seed=5,
        keys={"k": list(range(keys))},
        purposes=[sparseq.Questions(in_or_out=True, counts=20)],
    )
    sql = "SELECT k, count(*) AS n FROM t WHERE day = DATE '{}' GROUP BY k"
    asked = [Request(con.lower(sql.format(day))) for day in looked_at]
    answers = [one.answer.arrow()["n"].to_numpy() for one in con.ask_many(asked) if one.answer]
    of_month = np.array([12 * (d.year - FIRST.year) + d.month for d in looked_at])
    counts = np.array(answers)
    error, noise = {}, con.guarantee.sigma_0 / (20 * keys) ** 0.5
    for month in np.unique(of_month):
        (at,) = np.nonzero(of_month == month)
        assert abs(counts[at[:20]].mean() - 2) < 5 * noise, month
        assert abs(counts[at[20:]].mean()) < 10 * noise  # used up, till the next
        error[month] = np.sqrt(np.mean((counts[at[:28]] - 2) ** 2))
    assert abs(error[36] / error[2] - 1) < 0.05
    assert max(spent(con).values()) <= 20 * UNITS_PER_NORM


def test_rows_without_a_time_are_nobodys_and_the_curator_is_told() -> None:
    table = pa.table({"who": [1, 1, None], "day": [FIRST, None, FIRST], "x": [1.0, 2.0, 3.0]})
    con = store(table)
    assert list(spent(con)) == ["1,2024-01-01"]
    assert "2" in con.curator_notes()[0]


@pytest.mark.parametrize(
    ("unit", "begun"),
    [
        ("day", "2024-05-16"),
        ("week", "2024-05-13"),
        ("month", "2024-05-01"),
        ("quarter", "2024-04-01"),
        ("year", "2024-01-01"),
    ],
)
@pytest.mark.parametrize("moment", [dt.date(2024, 5, 16), dt.datetime(2024, 5, 16, 23, 59, 59)])
def test_a_window_is_called_by_the_day_it_begins_on(unit: str, begun: str, moment: dt.date) -> None:
    con = store(pa.table({"who": ["a,b"], "day": [moment], "x": [1.0]}), window=unit)
    assert list(spent(con)) == [f"a\\,b,{begun}"]
    assert con.catalog.private[0].user == f"who_{unit}"


def test_all_windows_of_a_person_are_erased(tmp_path: Path) -> None:
    con = store(rows(), tmp_path / "s")
    mine = [one for one in spent(con) if one.startswith("7,")]
    assert len(mine) > 1
    assert curator.forget(con, 7).people == len(mine)
    con.close()
    with sparseq.connect(tmp_path / "s") as again:
        assert not [one for one in spent(again) if one is not None and one.startswith("7,")]
        assert [one for one in spent(again) if one is not None and one.startswith("17,")]
        again.ingest(rows(1))
        assert again.catalog.unit == "one who in one month"


def test_the_promise_says_whose_it_is(tmp_path: Path) -> None:
    con = store(rows(), tmp_path / "s")
    answer = con.sql("SELECT count(*) AS n FROM t")
    assert answer.facts.unit == "one who in one month"
    con.close()
    runner = CliRunner()
    for command in (["budget", f"{tmp_path / 's'}"], ["sql", f"{tmp_path / 's'}", ASKED[0]]):
        shown = runner.invoke(command_line, command)
        assert shown.exit_code == 0, shown.output
        assert "one who in one month" in shown.output


@pytest.mark.parametrize(
    ("key", "value", "answered"),
    [
        ("at::DATE", "DATE '2024-01-01'", True),
        ("at", "TIMESTAMP '2024-01-01 05:00:00'", True),
        ("at::DATE::TIMESTAMP", "TIMESTAMP '2024-01-01'", True),
        ("at::TIME", "TIME '05:00:00'", False),
        ("at::TIME::VARCHAR", "'05:00:00'", False),
    ],
)
def test_a_key_that_mixes_windows_counts_no_person(key: str, value: str, answered: bool) -> None:
    """The same hour of two months is two windows of one person."""
    moments = [dt.datetime(2024, month, 1, 5) for month in (1, 2)]
    con = store(pa.table({"who": [1, 1], "at": moments, "x": [1.0, 1.0]}), time="at")
    sql = f"SELECT {key} AS k, count(DISTINCT {{}}) AS n FROM t WHERE {key} IN ({value}) GROUP BY 1"
    con.lower(sql.format("who_month"))
    if answered:
        con.lower(sql.format("who"))
    else:
        with pytest.raises(sparseq.QueryRefused, match="these are not public"):
            con.lower(sql.format("who"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"window": "fortnight"}, "window is 'fortnight'"),
        ({"time": ""}, "window is 'month'"),
        ({"time": "x"}, "it says no month"),
        ({"row_key": "x"}, "no row keys"),
    ],
)
def test_what_is_no_window_is_refused(more: dict[str, str], said: str) -> None:
    with pytest.raises(sparseq.ParameterError, match=said):
        store(rows(), **more)


MONTHS = pa.table(
    {
        "who": [7] * 12 + [1],
        "day": [dt.date(2024, month, 3) for month in range(1, 13)] + [FIRST],
        "at": [dt.datetime(2024, month, 3, 5) for month in range(1, 13)] + [None],
        "x": [1.0] * 13,
    }
)


@functools.cache
def months(time: str) -> sparseq.Store:
    """Return a store with a cap for life, the same for all."""
    return store(MONTHS, time=time, lifetime_kappa=5.0)


@pytest.mark.parametrize("time", ["day", "at"])
@pytest.mark.parametrize(
    "where",
    [
        "date_trunc('year', {0}) < DATE '2024-01-15'",
        "year({0}) < 2024.4",
        "year({0}) <= 2024",
        "date_trunc('quarter', {0}) <= DATE '2024-01-15'",
        "NOT (date_trunc('year', {0}) > '2024-01-20')",
        "last_day({0}) < DATE '2024-02-20' OR {0} = '2024-03-03'",
        "{0} - INTERVAL 40 DAY < '2024-01-15'",
        "date_diff('year', {0}, DATE '2024-06-01') >= 0",
        "epoch({0}) <= 1.72e9",
        "{0} BETWEEN '2024-01-02' AND TIMESTAMP '2024-02-03 05:00:00'",
        "time_bucket(INTERVAL '1 year', {0}) < '2024-01-15'",
    ],
)
def test_what_seems_to_be_one_month_and_is_several_is_not(time: str, where: str) -> None:
    """date_trunc('year', day) < 2024-01-15 is all of 2024."""
    where = f"{time} >= DATE '2024-01-02' AND {where.format(time)}"
    assert not months(time).lower(f"SELECT count(*) AS n FROM t WHERE {where}").apart
    with pytest.raises(sparseq.QueryRefused, match="these are not public"):
        months(time).lower(f"SELECT count(DISTINCT who) AS n FROM t WHERE {where}")


@pytest.mark.parametrize(
    "where",
    [
        "date_trunc('month', {0}) = DATE '2024-03-01'",
        "year({0}) = 2024.4",
        "{0} < NULL",
        "x > 0 AND {0}::DATE BETWEEN '2024-03-02' AND TIMESTAMP '2024-03-09 12:00:00'",
        "NOT ({0} < '2024-05-02' OR {0} >= '2024-05-20' OR {0} IS NULL)",
        "last_day({0}) = '2024-02-29'",
        "{0} + INTERVAL 1 DAY = '2024-03-04'",
        "date_diff('month', DATE '2024-01-31', {0}) = 1",
        "({0} >= '2024-05-02' AND {0} < '2024-06-01') IS TRUE",
    ],
)
@pytest.mark.parametrize("time", ["day", "at"])
def test_what_is_one_month_is_told_to_be(time: str, where: str) -> None:
    assert months(time).lower(f"SELECT count(*) AS n FROM t WHERE {where.format(time)}").apart


def test_a_shape_that_was_one_month_is_none_with_other_dates() -> None:
    """Queries that differ in their dates are lowered once; not where the dates decide."""
    with store(MONTHS, lifetime_kappa=5.0) as con:
        sql = "SELECT count(*) AS n FROM t WHERE day BETWEEN DATE '{}' AND DATE '{}'"
        for month in range(1, 5):
            assert con.lower(sql.format(f"2024-0{month}-02", f"2024-0{month}-25")).apart
        assert not con.lower(sql.format("2024-01-05", "2024-11-26")).apart


@pytest.mark.parametrize(
    "key", ["year(at + INTERVAL 1 YEAR)", "at::DATE", "date_trunc('year', at)"]
)
@pytest.mark.parametrize(
    "where",
    [
        "at >= '9999-12-20' AND at <= DATE '9999-12-31'",
        "at::DATE > '9999-12-20' AND year(at) < 1e300",
        "year(at + INTERVAL 1 YEAR) = 2025 AND year(at) = 2024",
        "at < '0001-01-03' AND year(at) > -1",
        "date_trunc('day', at) IN (DATE '9999-12-31')",
        "at + INTERVAL 9999 YEAR > '9999-12-31'",
        "year(at) < 'infinity'::DOUBLE AND at >= '9999-12-31'",
        "at < DATE '9999-12-31' + INTERVAL 1 DAY",
        "at < TIMESTAMP 'infinity' AND at > '9999-12-31'",
        "year(at) <= 'nan'::DOUBLE",
        "last_day(at) = '9999-12-31'",
        "at - INTERVAL 1 MONTH >= '9999-11-30'",
        "at < '-infinity'",
    ],
)
def test_times_at_the_ends_are_answered_or_refused(key: str, where: str) -> None:
    for sql in (
        f"SELECT count(*) AS n FROM t WHERE {where}",
        f"SELECT {key} AS y, count(*) AS n FROM t WHERE {where} GROUP BY 1",
    ):
        with contextlib.suppress(sparseq.QueryRefused):
            months("at").sql(sql)
