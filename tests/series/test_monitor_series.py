"""The watch and the forecasts go along with a series; a cut-off run ends as one that was not."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from shop_days import BUYERS, DAYS, make, sales, spends, ticks
from test_follow import Lives, fill, put

import sparseq
from sparseq.accounting.strategies import Strategy
from sparseq.base.errors import ParameterError
from sparseq.ledger.pots import Pot
from sparseq.ledger.purposes import Purpose
from sparseq.series import Monitor, QuerySeries, QueryText, Ticks
from sparseq.series.method_series import ForecastSeries, StrategySeries
from sparseq.series.methods.forecast import Forecast
from sparseq.series.monitor_series import MonitorSeries
from sparseq.series.query_series import tick_request
from sparseq.series.watch_rows import Watch, horizon_of, sounds_alarm

RESERVES = {"norm_budget": 30, "reserves": {"watch": 0.5, "forecast": 0.4}}
ASIDE = {
    "norm_budget": 30,
    "reserves": {"watch": 0.5},
    "purposes": [Purpose("buyers", 0.45, 365, 15.0, forecast=0.8)],  # 3 for answers
}


def run(con: sparseq.Store, out: Path, stop_after: int = 99) -> list[Any]:
    series = ForecastSeries(con, "buyers", QueryText.of(BUYERS), ticks())
    monitor, done = Monitor(con, ticks(), [series, Watch(con, ticks(), 0.9)], out), []
    for ticked in monitor.run():
        done.append(ticked)
        if len(done) == stop_after:
            return done
    monitor.flush()
    return done


def test_rows_of_all_kinds_and_restarts(tmp_path: Path) -> None:
    with make(None, **ASIDE) as con:
        done = run(con, tmp_path / "whole.csv")
        whole = spends(con)
        releases = con.released
    rows = list(csv.DictReader((tmp_path / "whole.csv").open()))
    assert [(r["series"], r["estimate"], r["column"]) for r in rows[:6]] == [
        ("buyers", "answer", "buyers"),
        ("buyers", "corrected", "buyers"),
        ("watch", "watch", "active_share"),
        ("watch", "watch", "dropped"),
        ("watch", "watch", "people"),
        ("watch", "watch", "alarm"),
    ]
    assert len(rows) == 6 * len(DAYS)
    assert all(r["forecast_error"] == "" for r in rows if r["estimate"] == "answer")
    left_out = sum(sounds_alarm(t.rows) for t in done)
    assert left_out in (0, 1)  # it goes off once
    with make(None, **ASIDE) as con:
        run(con, tmp_path / "cut.csv", 4)
        run(con, tmp_path / "cut.csv", 3)
        run(con, tmp_path / "cut.csv")
        assert run(con, tmp_path / "cut.csv") == []
        assert spends(con) == whole
        assert con.released == releases
    assert (tmp_path / "cut.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_several_series_share_the_reserve_and_go_on_as_they_were_begun() -> None:
    with make(None, **RESERVES) as con:
        texts = {"buyers": QueryText.of(BUYERS), "again": QueryText.of(BUYERS)}
        tick, begun = ticks()[0], []
        for name, text in texts.items():
            query = QuerySeries(con, name, text, ticks()).lowered(tick)
            forecast = Forecast(con, name, 365, cap=0.5, share=0.5)
            begun.append(forecast.ask(0, query, None, tick_request(name, tick, query)))
        assert con.released == 4
        for _ in range(2):
            series = MonitorSeries().sources(con, list(texts.items()), ticks())
            assert [type(one) for one in series] == [ForecastSeries] * 2
            for one, done in zip(series, begun, strict=True):
                answer, corrected = one.rows(tick)
                assert answer.value == done.active.value()
                assert [corrected.value] == done.corrected.tolist()
        assert con.released == 4
        with pytest.raises(ParameterError, match=r"begun with cap 0.5, not 0.7"):
            Forecast(con, "buyers", cap=0.7, share=0.5)


def test_series_are_asked_by_the_methods_of_their_parts() -> None:
    """Each by its own, from its own part: a series that has none is a question a tick."""
    purposes = [
        Purpose("corrected", 0.3, 12, 6.0, forecast=0.5, cap=0.5),
        Purpose("taps", 0.3, 12, strategy="1,-0.5", left_out=0.1),
        Purpose("alone", 0.1, 12),
    ]
    with make(None, norm_budget=30, purposes=purposes) as con:
        names = ["corrected", "taps", "alone", "beside"]
        texts = [(name, QueryText.of(BUYERS)) for name in names]
        series = MonitorSeries().sources(con, texts, ticks())
        kinds = [ForecastSeries, StrategySeries, QuerySeries, QuerySeries]
        assert [type(one) for one in series] == kinds
        assert [(one.strategy, one.left_out) for one in series] == [
            ("", 0.0),
            (Strategy.of("1,-0.5").text, 0.1),
            ("", 0.0),
            ("", 0.0),
        ]
        for _ in range(2):
            rows = [[row.estimate for row in one.rows(ticks()[0])] for one in series]
            assert rows == [["answer", "corrected"], ["answer"], ["answer"], ["answer"]]
            assert con.released == 5
        asked = [(r.pot, str(r.request_id)) for r in con.releases() if r.request_id is not None]
        found = {name: pot for pot, request in asked for name in names if name in request}
        assert found == {
            "corrected": Pot(con.promise.purposes[0].answers),
            "taps": Pot(con.promise.purposes[1].answers),
            "alone": Pot(con.promise.purposes[2].answers),
            "beside": Pot.QUERIES,
        }


def test_a_store_with_nothing_set_aside(tmp_path: Path) -> None:
    with make(None) as con:
        with pytest.raises(ParameterError, match="no reserve"):
            Watch(con, ticks(), 0.9)
        with pytest.raises(ParameterError, match="no reserve"):
            ForecastSeries(con, "buyers", QueryText.of(BUYERS), ticks())
        assert con.released == 0


def test_the_horizon_is_that_of_the_beginning() -> None:
    endless = Ticks(ticks().first, "1h")
    assert horizon_of(ticks()) == 365
    assert horizon_of(Ticks(ticks().first, "1w", ticks().first.replace(year=2030))) == 314
    assert horizon_of(endless) == 365 * 24
    with make(None, **ASIDE) as con:
        rows = Watch(con, ticks(), 0.9, horizon=2).rows
        assert [bool(rows(t)) for t in list(ticks())[:3]] == [True, True, False]
        assert len(Watch(con, ticks(), 0.9).rows(ticks()[1])) == 4  # goes on as it was begun


@pytest.fixture
def lives() -> Iterator[Lives]:
    lives = Lives()
    yield lives
    lives.close()


@pytest.mark.deep
def test_killed_at_any_moment(tmp_path: Path, lives: Lives) -> None:
    """Rows of a day come in after it is answered: no moment between them and a recount is lost."""
    (tmp_path / "buyers.sql").write_text(BUYERS)
    late = pa.concat_tables([sales(d) for d in DAYS[8:]])
    late = late.set_column(1, "day", pa.array([DAYS[1]] * late.num_rows))
    people = {*late["who"].to_pylist(), *sales(DAYS[1])["who"].to_pylist()}
    results = {}
    for name in ("whole", "killed", "without"):
        path, inbox, out = (tmp_path / f"{name}{end}" for end in (".sparseq", "", ".csv"))
        make(path, [], **ASIDE).close()
        line = (
            "monitor",
            path,
            tmp_path / "buyers.sql",
            "--from",
            DAYS[0],
            "--to",
            DAYS[7],
            "--follow",
            inbox,
            "--output",
            out,
            "--quiet",
            "--alarm-below=90%",
        )
        fill(inbox, DAYS[:4])
        assert lives.live(0, *map(str, line), "--once") in (0, 7)
        if name != "without":
            put(inbox, f"{DAYS[1]}-late.csv", late)
        fill(inbox, DAYS[:8])
        # Before and after the late rows are in, before and after they are counted.
        for moment in (1, 2, 3, 4) if name == "killed" else ():
            assert lives.live(moment, *map(str, line)) == -9
        assert lives.live(0, *map(str, line)) in (0, 7)
        with sparseq.connect(path) as con:
            results[name] = (out.read_text().splitlines(), spends(con), con.released)
            seen = con.backend.database.execute(
                "SELECT _user FROM ledger.forecast_seen WHERE tick = 1"
            )
            assert (len(seen.fetchall()) == len(people)) == (name != "without")
    assert results["killed"] == results["whole"]
    assert results["killed"][0] != results["without"][0]
