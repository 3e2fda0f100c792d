"""Grafana's macros as its PostgreSQL data source expands them: a refresh of a panel is free."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pgwire.wired import Address, served, spent

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

SPANS = (
    ("1997-01-05T10:07:12.345Z", "1997-01-06T10:07:12.345Z"),
    ("1997-01-05T10:09:30Z", "1997-01-06T10:59:59.999Z"),
)
"""Of a panel, and of its refresh: 24 hours before now."""
PANELS = {
    "$__timeGroup": 'SELECT floor(extract(epoch from seen)/3600)*3600 AS "time", '
    "count(*) AS n FROM purchases WHERE seen BETWEEN '{}' AND '{}' GROUP BY 1 ORDER BY 1",
    "$__timeGroupAlias and a metric": 'SELECT floor(extract(epoch from seen)/900)*900 AS "time", '
    "kind AS metric, count(*) AS n FROM purchases WHERE seen BETWEEN '{}' AND '{}' "
    "GROUP BY 1, 2 ORDER BY 1, 2",
    "$__timeGroup with TimescaleDB": "SELECT time_bucket('3600.000s',seen) AS \"time\", "
    "sum(amount) AS s FROM purchases WHERE seen BETWEEN '{}' AND '{}' GROUP BY 1 ORDER BY 1",
    "date_trunc": "SELECT date_trunc('day', seen) AS \"time\", count(*) AS n FROM purchases "
    "WHERE seen BETWEEN '{}' AND '{}' AND kind = 'gift' GROUP BY 1 ORDER BY 1",
    "of days": 'SELECT day AS "time", count(*) AS n FROM purchases '
    "WHERE day BETWEEN '{}' AND '{}' GROUP BY 1 ORDER BY 1",
    "of days without groups": "SELECT count(*) AS n FROM purchases WHERE day BETWEEN '{}' AND '{}'",
    "$__timeFrom and $__timeTo": "SELECT date_trunc('hour', seen) AS \"time\", count(*) AS n "
    "FROM purchases WHERE seen >= date_trunc('hour', '{}'::timestamp) "
    "AND seen < date_trunc('hour', '{}'::timestamp) GROUP BY 1",
}


@pytest.fixture(scope="module")
def at() -> Iterator[Address]:
    with served() as address:
        yield address


@pytest.mark.parametrize("panel", PANELS)
def test_a_refresh_within_a_bucket_is_a_repeat(panel: str, at: Address) -> None:
    if panel.startswith("$__timeGroupAlias"):  # quarters of an hour: the refresh is within one
        spans = (SPANS[0], ("1997-01-05T10:14:59Z", "1997-01-06T10:14:59.9Z"))
    else:
        spans = SPANS
    told = list[str]()
    with psycopg.connect(at.url, autocommit=True) as con:
        con.add_notice_handler(lambda notice: told.append(notice.message_primary))
        first = con.execute(PANELS[panel].format(*spans[0])).fetchall()
        before, released = spent(at.store), at.store.released
        widened = [note for note in told if "was widened to whole buckets" in note]
        assert bool(widened) is not panel.startswith("$__timeFrom")
        assert con.execute(PANELS[panel].format(*spans[1])).fetchall() == first
    assert (at.store.released, spent(at.store)) == (released, before)
    assert len(first) >= 1


def test_a_widened_range_is_the_range_of_its_buckets(at: Address) -> None:
    """The answer is the recorded one to the same question about whole hours."""
    moved = PANELS["$__timeGroup"].format(*SPANS[0])
    written = moved.replace(
        f"BETWEEN '{SPANS[0][0]}' AND '{SPANS[0][1]}'",
        ">= TIMESTAMP '1997-01-05 10:00:00' AND seen < TIMESTAMP '1997-01-06 11:00:00'",
    )
    rows = at.store.sql(moved).rows()
    assert len(rows) == 25
    released = at.store.released
    assert at.store.sql(written).rows() == rows
    assert at.store.released == released


def test_ends_that_somebody_wrote_stay(at: Address) -> None:
    """Without T and Z, and in a question without buckets of a time, a range is as it stands."""
    for where, groups in (
        ("seen BETWEEN '1997-01-05 10:07:12' AND '1997-01-06 10:07:12'", 25),
        ("seen BETWEEN TIMESTAMP '1997-01-05 10:07:12' AND TIMESTAMP '1997-01-06 10:07:12'", 25),
    ):
        text = f"SELECT date_trunc('hour', seen) AS h, count(*) AS n FROM purchases WHERE {where}"
        answer = at.store.sql(f"{text} GROUP BY 1")
        assert len(answer.rows()) == groups
        assert not any("widened" in note for note in answer.facts.notes)
    plain = at.store.sql(
        "SELECT count(*) AS n FROM purchases WHERE seen BETWEEN "
        "'1997-01-05T10:07:12Z' AND '1997-01-06T10:07:12Z'"
    )
    assert not plain.facts.notes
