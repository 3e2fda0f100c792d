"""A moment means what DuckDB says, in a session in UTC; where DuckDB drops a zone, it is refused.

The judge is DuckDB itself, on columns of the type that the file has.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sparseq
from sparseq import dbapi
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.language.calendar import UNITS, ZONES_SINCE
from sparseq.pgwire.pg_values import parameter
from sparseq.pgwire.wire_errors import WireError
from sparseq.question.catalog import Catalog
from sparseq.sql.parameters import bound, literal, value_of
from sparseq.sql.public_database import PublicFacts

PEOPLE = 96 * 60
START = dt.datetime(2024, 3, 30, tzinfo=dt.UTC)
AT = [START + dt.timedelta(minutes=i) for i in range(PEOPLE)]
ROWS = pa.table(
    {
        "who": range(PEOPLE),
        "zoned": pa.array(AT, pa.timestamp("us", "Europe/Berlin")),
        "plain": pa.array([a.replace(tzinfo=None) for a in AT], pa.timestamp("us")),
        "day": pa.array([a.date() for a in AT]),
        "clock": pa.array([a.time() for a in AT], pa.time64("us")),
    }
)
TEXTS = (
    "2024-03-31",
    "2024-03-31 12:00",
    "2024-03-31 12:00:00",
    "2024-03-31T12:00:00.5",
    "2024-03-31 12:00:00Z",
    "2024-03-31 12:00:00+00:00",
    "2024-03-31 12:00:00+00",
    "2024-03-31 12:00:00 UTC",
    "2024-03-31 12:00:00+05:00",
    "2024-03-31 12:00:00-05",
    "2024-03-31T12:00:00-05:30",
    "2024-03-31 12:00:00 +0500",
    "2024-03-31 12:00:00 Asia/Tokyo",
    "2024-03-31 02:30:00 Europe/Berlin",
    "2024-03-31 23:00:00-05:00",
    "2024-03-31 00:00",
    "infinity",
    "-infinity",
    "epoch",
    "now",
    "2024-03-31 24:00:00",
    "12:00:00",
    "12:00:00+05",
)
TEMPLATES = (
    "{c} >= '{t}'",
    "'{t}' > {c}",
    "{c} BETWEEN '{t}' AND '2024-04-02'",
    "{c} IN ('{t}')",
    "{c} >= TIMESTAMP '{t}'",
    "{c} >= TIMESTAMPTZ '{t}'",
    "{c} >= CAST('{t}' AS DATE)",
    "coalesce({c}, '{t}') >= '{t}'",
    "CASE WHEN {c} < '{t}' THEN 1 ELSE 0 END = 1",
    "{c} >= TIMESTAMPTZ '{t}' - INTERVAL 3 HOUR",
    "{c} >= CAST(TIMESTAMPTZ '{t}' AS DATE)",
    "hour(TIMESTAMPTZ '{t}') = hour({c})",
    "{c} IS NOT DISTINCT FROM TIMESTAMPTZ '{t}'",
)


@pytest.fixture(scope="module")
def con() -> Iterator[sparseq.Store]:
    noon = {"noon": pa.table({"moment": pa.array([AT[720]], pa.timestamp("us", "UTC"))})}
    with sparseq.create(None, {"t": ROWS}, user="who", kappa=1000, seed=1, public=noon) as made:
        yield made


@pytest.fixture(scope="module")
def judge() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("t", ROWS)
    con.execute(
        f"CREATE TABLE noon AS SELECT make_timestamptz({int(AT[720].timestamp())}000000) AS moment"
    )
    utc = ROWS["zoned"].cast(pa.timestamp("us"))
    con.register("stored", ROWS.set_column(1, "zoned", utc))
    return con


@pytest.fixture(scope="module")
def counted(con: sparseq.Store, judge: duckdb.DuckDBPyConnection) -> Callable[..., int]:
    """Return what counts, without noise, the rows that a condition is lowered to."""

    def count(condition: str, *params: Any) -> int:
        text = f"SELECT count(*) AS n FROM t WHERE {condition}"
        relation = con.lower(bound(text, params)).relation
        ((n,),) = judge.execute(
            f"SELECT count(*) FROM stored AS t WHERE {relation.where}"
        ).fetchall()
        return int(n)

    return count


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("column", ["zoned", "plain", "day", "clock"])
def test_a_text_means_what_duckdb_says_or_is_refused(
    counted: Callable[..., int], judge: duckdb.DuckDBPyConnection, column: str, step: int
) -> None:
    """Deep: each template with each text; else with each third one, from another one on."""
    answered = 0
    for k, template in enumerate(TEMPLATES):
        if column == "clock" and "TIMESTAMP" in template + "DATE" * ("CAST" in template):
            continue
        for text in TEXTS[k % step :: step]:
            condition = template.format(c=column, t=text)
            try:
                ours = counted(condition)
            except QueryRefused:
                continue
            ((theirs,),) = judge.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchall()
            assert ours == theirs, condition
            answered += 1
    assert answered >= (6 if column == "clock" else 100) // step


@pytest.mark.parametrize("zone", ["+02:00", "-05:00", " Europe/Berlin", "+0530", "-01"])
def test_a_zone_is_never_dropped(counted: Callable[..., int], zone: str) -> None:
    """What is proposed instead has the meaning that the words have, in DuckDB."""
    text = f"2024-04-01 02:00:00{zone}"
    ((moment,),) = duckdb.sql(f"SELECT epoch_us(TIMESTAMPTZ '{text}')").fetchall()
    truth = sum(a.timestamp() * 1e6 >= moment for a in AT)
    assert counted(f"zoned >= '{text}'") == truth
    for column in ("zoned", "plain"):
        texts = (f"'{text}'", f"TIMESTAMP '{text}'", f"CAST('{text}' AS TIMESTAMP)")
        for written in texts[column == "zoned" :]:
            with pytest.raises(QueryRefused, match="time zone") as refused:
                counted(f"{column} >= {written}")
            assert counted(refused.value.hint.split(" WHERE ")[1]) == truth
        assert counted(f"{column} >= TIMESTAMPTZ '{text}'") == truth
    for column, written in (("day", f"'{text}'"), ("clock", f"'02:00:00{zone}'")):
        with pytest.raises(QueryRefused):
            counted(f"{column} >= {written}")


def test_zones_of_formats_and_texts_of_moments_are_refused(counted: Callable[..., int]) -> None:
    """They would depend on the zone of the machine."""
    for condition in (
        "strptime('2024-03-31 +0200', '%Y-%m-%d %z') > plain",
        "CAST(TIMESTAMPTZ '2024-03-31 02:00:00+02:00' AS VARCHAR) = 'a'",
        "concat(TIMESTAMPTZ '2024-03-31 02:00:00+02:00', 'a') = 'a'",
        "CAST(coalesce(plain, TIMESTAMPTZ '2024-03-31 02:00:00+02:00') AS VARCHAR) = 'a'",
        "CAST(zoned AS VARCHAR) = 'a'",
        "zoned AT TIME ZONE 'Europe/Berlinn' > TIMESTAMP '2024-03-31'",
        "zoned AT TIME ZONE '+02:00' > TIMESTAMP '2024-03-31'",
        "'2024-03-31 02:00' AT TIME ZONE 'Europe/Berlin' > zoned",
        "zoned AT TIME ZONE CAST(day AS VARCHAR) > TIMESTAMP '2024-03-31'",
    ):
        with pytest.raises(QueryRefused):
            counted(condition)


def test_a_time_of_day_beside_a_date_is_refused_and_mended(counted: Callable[..., int]) -> None:
    with pytest.raises(QueryRefused, match="time of day") as refused:
        counted("day >= '2024-04-01 12:00'")
    truth = sum(a.date() > dt.date(2024, 4, 1) for a in AT)
    assert counted(refused.value.hint.split(" WHERE ")[1]) == truth
    assert counted("day >= '2024-04-01 00:00:00'") > truth


CLOCKS = (
    "{c} AT TIME ZONE '{z}' >= '2024-03-31 02:30'",
    "timezone('{z}', {c}) < '2024-04-01'",
    "hour({c} AT TIME ZONE '{z}') = 3",
    "day >= CAST({c} AT TIME ZONE '{z}' AS DATE)",
    "{c} AT TIME ZONE 'UTC' AT TIME ZONE '{z}' > plain",
    "date_trunc('day', {c} AT TIME ZONE '{z}') AT TIME ZONE '{z}' = '2024-03-31'",
    "date_diff('minute', {c}, {c} AT TIME ZONE '{z}') BETWEEN -90 AND 90",
    "to_timestamp(1711846800) AT TIME ZONE '{z}' <= {c} AT TIME ZONE 'utc'",
)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "america/new_york", "Australia/Lord_Howe"])
def test_a_clock_elsewhere_shows_what_duckdb_says(
    counted: Callable[..., int], judge: duckdb.DuckDBPyConnection, zone: str
) -> None:
    """Clocks are changed on one of the days: there are times twice, and times that never come."""
    some = 0
    for column in ("zoned", "plain"):
        for template in CLOCKS:
            condition = template.format(c=column, z=zone)
            ((theirs,),) = judge.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchall()
            assert counted(condition) == theirs, condition
            some += 0 < theirs < PEOPLE
    assert some >= 8


@pytest.mark.parametrize(
    "zone",
    [
        "Europe/Berlin",
        *(
            pytest.param(z, marks=pytest.mark.deep)
            for z in ("America/St_Johns", "Pacific/Kiritimati")
        ),
    ],
)
def test_keys_are_those_of_the_clock(
    con: sparseq.Store, judge: duckdb.DuckDBPyConnection, zone: str
) -> None:
    """Which there are follows from the range of the moments; groups of two keys go together."""
    day, hour = (f"{part} {{}} AT TIME ZONE '{zone}')" for part in ("date_trunc('day',", "hour("))
    for column, clock in (("zoned", "zoned"), ("plain", "(plain AT TIME ZONE 'UTC')")):
        text = (
            f"SELECT {day.format(clock)} AS d, {hour.format(clock)} AS h, count(*) AS n FROM t "
            f"WHERE {column} >= '2024-03-31 00:20' AND {column} < '2024-04-01 12:00' "
            "GROUP BY d, h ORDER BY d, h"
        )
        keys = [(row["d"], row["h"]) for row in con.sql(text).arrow().to_pylist()]
        assert keys == [row[:2] for row in judge.execute(text).fetchall()]


def test_moments_stay_moments(con: sparseq.Store, judge: duckdb.DuckDBPyConnection) -> None:
    """Through subqueries and windows, as keys of an answer that is asked about, as constants."""
    hour = "SELECT hour({} AT TIME ZONE 'Asia/Tokyo') AS x FROM"
    for c in ("zoned", "plain"):
        day, held = f"date_trunc('day', {c})", f"t WHERE {c} >= '2024-03-31' AND {c} < '2024-04-02'"
        many, one = "AS q GROUP BY x HAVING count(*) > 60", hour.format("m")
        first = f"first_value({day}) OVER (PARTITION BY who ORDER BY day)"
        for text in (
            f"{one} (SELECT {day} AS m, count(*) AS n FROM {held} GROUP BY 1) q ORDER BY n LIMIT 1",
            f"{one} (SELECT who, max({day}) AS m FROM {held} GROUP BY who) {many}",
            f"{one} (SELECT who, {first} AS m FROM {held}) {many}",
            f"{one} (SELECT {day} AS m FROM {held} UNION ALL SELECT {c} FROM t WHERE false) {many}",
            f"{hour.format('(SELECT max(moment) FROM noon)')} t GROUP BY x HAVING count(*) > 9",
        ):
            found = {row["x"] for row in con.sql(text).arrow().to_pylist()}
            assert found == {row[0] for row in judge.execute(text).fetchall()}, text


@pytest.mark.deep
def test_zones_change_their_clocks_at_whole_minutes() -> None:
    """What `ZONES_SINCE` says of zones that DuckDB knows; and hours, where they say hours."""
    con, facts = duckdb.connect(), PublicFacts(Catalog(()), "", {})
    off = "epoch_us(timezone(?, make_timestamptz({0}))) - {0}"
    for (zone,) in con.execute("SELECT name FROM pg_timezone_names() ORDER BY 1").fetchall()[::12]:
        unit = facts.unit_of_zone(zone)
        size = UNITS[unit].length
        at = [off.format(x) for x in (f"(i * {size})", f"((i + 1) * {size} - 1)")]
        days = con.execute(
            f"SELECT list(d) FROM (SELECT d, {off.format('(d * 86400000000)')} AS x, "
            f"{off.format('((d + 1) * 86400000000)')} AS y FROM range({ZONES_SINCE}, 25000) t(d)) "
            "WHERE x <> y",
            [zone, zone],
        ).fetchall()[0][0]
        per = 86_400_000_000 // size
        rows = f"(SELECT d * {per} + unnest(range({per})) AS i FROM unnest(?::BIGINT[]) AS t(d))"
        found = con.execute(
            f"SELECT count(*) FROM {rows} WHERE {at[0]} <> {at[1]} OR ({at[0]}) % {size} <> 0",
            [days or [], zone, zone, zone],
        ).fetchall()
        assert found == [(0,)], zone


_MOMENT = dt.datetime(2024, 4, 1, 2, tzinfo=ZoneInfo("America/New_York"))
_NAIVE = _MOMENT.astimezone(dt.UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    "value",
    [
        _MOMENT,
        _MOMENT.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=30))),
        pd.Timestamp(_MOMENT),
        pd.Timestamp(_NAIVE),
        pa.scalar(_MOMENT, pa.timestamp("us", "Asia/Tokyo")),
        pa.scalar(_NAIVE, pa.timestamp("ns")),
        np.datetime64(_NAIVE, "ns"),
        np.datetime64(_NAIVE, "s"),
        value_of("2024-04-01T02:00-04:00"),
    ],
    ids=lambda v: f"{type(v).__module__.split('.')[0]} {v}",
)
def test_parameters_keep_their_zone(
    con: sparseq.Store, counted: Callable[..., int], value: object
) -> None:
    truth = sum(a >= _MOMENT for a in AT)
    assert counted("zoned >= ?", value) == counted("plain >= ?", value) == truth
    cursor = dbapi.connect(con).cursor()
    cursor.execute("SELECT count(*) AS n FROM t WHERE plain >= ?", [value])
    assert abs(cursor.fetchall()[0][0] - truth) < 60  # an hour is 60 people, noise far less


def test_parameters_that_microseconds_do_not_hold_are_refused() -> None:
    for value in (
        pd.Timestamp("2024-01-01T00:00:00.000000001"),
        np.datetime64(1, "ns"),
        np.timedelta64(5, "ns"),
        pd.Timedelta(days=1),
    ):
        with pytest.raises(ParameterError):
            literal(value)
    assert literal(np.datetime64("NaT", "ns")) == literal(pd.NaT) == "NULL"
    assert literal(np.datetime64("2024-01-31")) == "DATE '2024-01-31'"


def test_parameters_of_postgresql_are_moments() -> None:
    utc = dt.datetime(2024, 4, 1, 6, tzinfo=dt.UTC)
    micros = int((utc - dt.datetime(2000, 1, 1, tzinfo=dt.UTC)).total_seconds() * 10**6)
    assert parameter(b"2024-04-01 02:00:00-04", 1184, 0) == utc
    assert parameter(micros.to_bytes(8, "big"), 1184, 1) == utc
    assert parameter(b"2024-04-01 06:00:00", 1114, 0) == utc.replace(tzinfo=None)
    assert "TIMESTAMPTZ" in literal(parameter(b"2024-04-01 02:00:00-04", 1184, 0))
    for text, oid in (
        (b"2024-04-01 02:00:00-04", 1114),
        (b"2024-04-01 02:00:00", 1184),
        (b"infinity", 1184),
        (b"infinity", 1082),
    ):
        with pytest.raises(WireError):
            parameter(text, oid, 0)


def test_expressions_keep_the_zone(con: sparseq.Store, counted: Callable[..., int]) -> None:
    truth = sum(a >= _MOMENT for a in AT)
    asked = con.table("t").count().where(pl.col("zoned") >= _MOMENT)
    assert counted(asked.sql.split(" WHERE ")[1]) == truth
