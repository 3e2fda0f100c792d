"""Nobody else can give a monitor's tick its answer, or stop the monitor by taking its name."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import sparseq
from sparseq.ledger.request_id import Asker
from sparseq.series import Monitor, QuerySeries, QueryText, Ticks

DAY = dt.date(2024, 1, 1)
PEOPLE = 1000
COUNT = "SELECT count(*) AS n FROM t WHERE day = :day"


def rows(day: dt.date) -> pa.Table:
    return pa.table({"who": range(PEOPLE), "day": [day] * PEOPLE})


def store(path: Path | None = None) -> sparseq.Store:
    return sparseq.create(
        path,
        {"t": rows(DAY)},
        user="who",
        seed=1,
        purposes=[sparseq.Questions(in_or_out=True, counts=100)],
    )


def monitor(con: sparseq.Store, days: int, out: Path | None = None, text: str = COUNT) -> Monitor:
    ticks = Ticks(dt.datetime(2024, 1, 1), "1d", dt.datetime(2024, 1, days))
    return Monitor(con, ticks, [QuerySeries(con, "buyers", QueryText.of(text), ticks)], out)


def values(monitor: Monitor) -> list[float]:
    return [row.value or 0.0 for ticked in monitor.run() for row in ticked.rows]


def spellings(con: sparseq.Store, label: str) -> list[str]:
    """All that an analyst can read of the first tick's name, for another tick."""
    (request,) = con.requests_of([1]).values()
    texts = [request.stored, str(request), request.text, f"monitor/buyers/{label}"]
    return [*dict.fromkeys(text.replace(DAY.isoformat(), label) for text in texts)]


def test_who_asks_tomorrows_question_first_does_not_answer_tomorrows_tick(tmp_path: Path) -> None:
    """That answer would be of a day whose rows are not in."""
    with store(tmp_path / "s.sparseq") as con:
        values(monitor(con, 1))
        text = con.releases()[0].query.replace("2024-01-01", "2024-01-02")
        for name in spellings(con, "2024-01-02"):
            assert con.sql(text, request_id=name).value() < PEOPLE / 2
        con.ingest(rows(DAY + dt.timedelta(1)))
        first, second = values(monitor(con, 2))
        assert min(first, second) > PEOPLE / 2
        assert [r.asker for r in con.releases()].count(Asker.MONITOR) == 2


def test_another_text_under_the_next_ticks_name_does_not_stop_the_monitor() -> None:
    with store() as con:
        values(monitor(con, 1))
        for name in spellings(con, "2024-01-02"):
            con.sql("SELECT count(*) AS z FROM t", request_id=name)
        assert len(values(monitor(con, 2))) == 2


def test_an_analyst_finds_no_answer_under_the_monitors_name_and_can_use_it() -> None:
    with store() as con:
        values(monitor(con, 1))
        for name in spellings(con, "2024-01-01"):
            assert con.recorded(name) is None
            mine = con.sql("SELECT count(*) AS z FROM t", request_id=name)
            again = con.sql("SELECT count(*) AS z FROM t", request_id=name)
            assert again.to_bytes() == mine.to_bytes()


def test_a_series_whose_query_was_changed_has_answers_of_its_own(tmp_path: Path) -> None:
    """Neither is it given the old answers, nor does it stop."""
    other = COUNT.replace("count(*)", "count(DISTINCT who)")
    with store() as con:
        old = values(monitor(con, 2, tmp_path / "o.csv"))
        new = values(monitor(con, 2, text=other))
        assert old != new
        assert con.released == 4
        assert values(monitor(con, 2)) == old, "and the old ones are still there"
        assert con.released == 4
        # the file keeps its ticks, and goes on with the next
        assert len(values(monitor(con, 3, tmp_path / "o.csv", other))) == 1
        assert len(values(monitor(con, 4, tmp_path / "o.csv"))) == 1


def test_a_file_with_a_release_that_is_no_such_ticks_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    with store() as con:
        values(monitor(con, 2, out))
        con.sql("SELECT count(*) AS z FROM t", request_id="monitor/buyers/2024-01-02")
        out.write_text(out.read_text().replace(",2\n", ",3\n"))
        with pytest.raises(sparseq.StoreError, match="did not give"):
            monitor(con, 2, out)
