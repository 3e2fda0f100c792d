"""What a server does by itself: series, replays and backups, each once however often it begins."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparseq
from sparseq.base.errors import ParameterError
from sparseq.ledger.purposes import Purpose
from sparseq.series.methods.strategy_series import has_strategy
from sparseq.server import jobs as module
from sparseq.server.audit import AuditLog
from sparseq.server.http import markup
from sparseq.server.job import JobState
from sparseq.server.job_file import read_jobs
from sparseq.server.jobs import Jobs
from sparseq.server.kept_jobs import KeptJobs, SeriesJob
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens

FILE = """
[daily]
kind = "monitor"
queries = ["rows.sql"]
from = 2024-01-01
follow = "incoming"
settle = 0
anyway = true
output = "rows.parquet"

[old]
kind = "replay"
log = "log.jsonl"
output = "old.parquet"

[nightly]
kind = "backup"
folder = "backups"
keep = 1

[wrong]
kind = "monitor"
queries = ["none.sql"]
from = 2024-01-01
output = "none.parquet"
"""


def rows(day: int) -> pa.Table:
    return pa.table({"who": [1, 2, day], "day": [dt.date(2024, 1, day)] * 3})


def arrives(folder: Path, day: int) -> None:
    pq.write_table(rows(day), folder / f"2024-01-{day:02}.parquet")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "PAUSE", 0.01)
    sparseq.create(tmp_path / "s", {"t": rows(1).slice(0, 0)}, user="who", time="day").close()
    (tmp_path / "jobs.toml").write_text(FILE)
    (tmp_path / "rows.sql").write_text("SELECT count(*) AS n FROM t WHERE day = :day;\n")
    asked = [{"id": f"{i}", "sql": f"SELECT count(*) AS n FROM t LIMIT {i}"} for i in (1, 2)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    for name in ("incoming", "backups"):
        (tmp_path / name).mkdir()
    arrives(tmp_path / "incoming", 1)
    arrives(tmp_path / "incoming", 2)
    return tmp_path


def served(folder: Path, enough: Callable[[dict[str, JobState]], bool]) -> dict[str, JobState]:
    """Serve until the jobs have done enough; return how they are then."""

    async def main() -> dict[str, JobState]:
        audit = AuditLog.beside(folder / "s")
        service = Service(sparseq.connect(folder / "s"), Tokens(None), audit=audit)
        wanted = read_jobs(folder / "jobs.toml")
        running = Jobs(wanted, service.operate, service.stopping, service.desk)
        states = {state.name: state for state in running.states}
        task = asyncio.ensure_future(running.run())
        async with asyncio.timeout(300):
            while not enough(states):
                await asyncio.sleep(0.01)
        service.stop()
        await task
        await service.close()
        return states

    return asyncio.run(main())


def has(folder: Path) -> tuple[int, Any]:
    with sparseq.connect(folder / "s") as con:
        return con.released, [
            row["tick"] for row in pq.read_table(folder / "rows.parquet").to_pylist()
        ]


def test_jobs_go_on_where_they_were(folder: Path) -> None:
    ends = {"daily": "waiting", "old": "done", "nightly": "waiting", "wrong": "failed"}
    states = served(
        folder,
        lambda s: (
            s["daily"].said == "2024-01-02" and ends == {name: one.state for name, one in s.items()}
        ),
    )
    assert "none.sql can't be read" in states["wrong"].said
    (made,) = (folder / "backups").iterdir()
    assert states["nightly"].said == made.name
    releases, ticks = has(folder)
    assert len(ticks) == 2
    arrives(folder / "incoming", 3)
    states = served(folder, lambda s: s["daily"].said == "2024-01-03" and s["old"].state == "done")
    assert states["old"].steps == states["nightly"].steps == 0
    again, ticks = has(folder)
    assert (again, len(ticks)) == (releases + 1, 3)
    log = AuditLog.beside(folder / "s")
    log.verify()
    asked = [line for line in log.lines() if line["what"] == "asked"]
    assert [line["release"] for line in asked] == list(range(1, again + 1))
    assert {line["source"] for line in asked} == {"job daily", "job old"}


def test_series_of_jobs_have_strategies_and_forecasts_and_alarms(tmp_path: Path) -> None:
    """As those of `sparseq monitor`, under the same names: stopped between, they go on."""
    data = pa.concat_tables([rows(day) for day in (1, 2, 3, 4)])
    (tmp_path / "rows.sql").write_text("SELECT count(*) AS n FROM t WHERE day = :day;")
    common = 'kind = "monitor"\nqueries = ["rows.sql"]\nfrom = 2024-01-01\nto = 2024-01-0{}\n'
    for name, part, more in (
        ("taps", Purpose("rows", 0.4, 8, strategy="1,-0.5", left_out=0.02), ""),
        ("corrected", Purpose("rows", 0.4, 8, forecast=0.3), "horizon = 8\nalarm_below = 0.5\n"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "rows.sql").write_text((tmp_path / "rows.sql").read_text())
        sparseq.create(
            folder / "s",
            {"t": data},
            user="who",
            time="day",
            seed=1,
            purposes=[sparseq.Questions(in_or_out=True, watch=0.1), part],
        ).close()
        for last in (2, 4):
            output = f'output = "{last}.parquet"\n'
            text = f"[{name}]\n{common.format(last)}{more}{output}"
            (folder / "jobs.toml").write_text(text)
            states = served(folder, lambda s: all(one.state == "done" for one in s.values()))
            assert [one.said for one in states.values()]
        found = pq.read_table(folder / "4.parquet").to_pylist()
        before = pq.read_table(folder / "2.parquet").to_pylist()
        assert {row["series"] for row in found} >= {"rows"}
        assert {str(row["tick"])[:10] for row in found} == {
            f"2024-01-0{day}" for day in (1, 2, 3, 4)
        }
        assert [r["value"] for r in found][: len(before)] == [r["value"] for r in before]
        with sparseq.connect(folder / "s") as con:
            assert has_strategy(con, "rows") == (name == "taps")
            estimates = {row["estimate"] for row in found}
            assert estimates == ({"answer"} if name == "taps" else {"answer", "corrected", "watch"})
            assert {"watch", "rows"} <= {row["series"] for row in found} or name == "taps"


def test_a_curator_sees_them_and_an_analyst_does_not(folder: Path) -> None:
    httpx = pytest.importorskip("httpx")
    app = pytest.importorskip("sparseq.server.http.app")

    async def main() -> None:
        service = Service(sparseq.connect(folder / "s"), Tokens(None))
        service.jobs = [JobState("nightly", "backup", "failed", "<no room>")]
        transport = httpx.ASGITransport(app.application(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            for role, status in ((Role.CURATOR, 200), (Role.ANALYST, 403)):
                secret = service.tokens.create(role.value, role)
                headers = {"Authorization": f"Bearer {secret}"}
                found = await client.get("/v1/jobs", headers=headers)
                assert found.status_code == status
                client.cookies.set("sparseq", secret)
                page = await client.get("/curator")
                assert ("&lt;no room&gt;" in page.text) == (status == 200)
                if status == 200:
                    assert found.json()[0]["said"] == "<no room>"
        await service.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "no kind"),
        ('[a]\nkind = "sing"', "no kind"),
        ('[a]\nkind = "backup"', "needs folder"),
        ('[a]\nkind = "backup"\nfolder = "b"\nkep = 1', "no 'kep'"),
        ('[a]\nkind = "backup"\nfolder = "b"\nkeep = -1', "keep can't be -1"),
        ('[a]\nkind = "monitor"\nqueries = "q"\nfrom = 1', "queries can't be 'q'"),
        ('[a]\nkind = "monitor"\nstart = "2024-01-01"', "no 'start'"),
        (
            '[a]\nkind = "monitor"\nqueries = ["q"]\nfrom = 2024-01-01\nforecast = true',
            "no 'forecast'",
        ),
        (
            '[a]\nkind = "monitor"\nqueries = ["q"]\nfrom = 2024-01-01\nstrategy = "news"',
            "no 'strategy'",
        ),
        (
            '[a]\nkind = "monitor"\nqueries = ["q"]\nfrom = 2024-01-01\nsettle = true',
            "settle can't be True",
        ),
        ('["a b"]\nkind = "backup"', "can't be the name of a job"),
        ("[a", "can't read"),
    ],
)
def test_what_a_file_of_jobs_says_is_checked(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "jobs.toml").write_text(text)
    with pytest.raises(ParameterError, match=said):
        read_jobs(tmp_path / "jobs.toml")


FORM = {
    "name": "visits",
    "sql": "SELECT count(DISTINCT who) AS n FROM t WHERE day >= :day AND day < :next_day;",
    "first": "2024-01-01",
    "last": "2024-01-03",
    "share": "20",
}
HERE = {"Origin": "http://here"}


def on_pages(folder: Path, check: Callable[[Any, Service], Awaitable[None]]) -> list[SeriesJob]:
    """Check the pages of a server that runs series, as a curator; return those that it keeps."""
    httpx = pytest.importorskip("httpx")
    app = pytest.importorskip("sparseq.server.http.app")

    async def main() -> list[SeriesJob]:
        service = Service(sparseq.connect(folder / "s"), Tokens(None))
        kept = KeptJobs.beside(folder / "s")
        jobs = Jobs([], service.operate, service.stopping, service.desk, kept)
        service.runs(jobs)
        task = asyncio.ensure_future(jobs.run())
        transport = httpx.ASGITransport(app.application(service))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://here", headers=HERE
        ) as client:
            client.cookies.set("sparseq", service.tokens.create("cora", Role.CURATOR))
            try:
                await check(client, service)
            finally:
                service.stop()
                await task
                await service.close()
        return kept.series()

    return asyncio.run(main())


async def until(service: Service, state: str) -> None:
    async with asyncio.timeout(300):
        while [one.state for one in service.jobs] != [state]:
            await asyncio.sleep(0.01)


def test_a_curator_begins_a_series_on_a_page(folder: Path) -> None:
    """Looking asks nothing; what was begun goes on after the server was, and is asked once."""

    async def begin(client: Any, service: Service) -> None:
        service.tokens.create("ana", Role.ANALYST)
        looked = (await client.get("/new-series", params=FORM)).text
        assert "It asks 3 ticks." in looked
        assert "It gets 20 % of what everybody has left" in looked
        assert "Begin it" in looked
        for wrong, said in (
            ({"last": "", "share": ""}, "of what the store has for questions"),  # 365 ticks
            ({"last": ""}, "has no last tick"),
            ({"sql": "SELECT count(*) AS n FROM t"}, "has no parameter :day"),
            ({"sql": "SELECT count(*) AS n FROM t WHERE day = :day"}, "the bound of its noise"),
            ({"name": "a b"}, "can&#39;t be the name of a job"),
            ({"first": "soon"}, "is not a date"),
        ):
            page = await client.get("/new-series", params=FORM | wrong)
            assert said in page.text, wrong
            assert "Begin it" not in page.text
            refused = await client.post("/new-series", data=FORM | wrong)
            assert refused.status_code == 422, wrong
        assert (service.released, service.jobs) == (0, [])
        plain = FORM | {"sql": "SELECT count(*) AS n FROM t WHERE day = :day"}
        assert f"choose “{markup.ANYWAY}”" in (await client.get("/new-series", params=plain)).text
        page = await client.get("/new-series", params=plain | {"anyway": "true"})
        assert "Begin it" in page.text
        assert "checked" in page.text
        done = await client.post("/new-series", data=FORM)
        assert done.headers["location"] == "/series"
        assert (await client.post("/new-series", data=FORM)).status_code == 422  # its name
        await until(service, "done")
        assert service.released == 4  # its part of the budget, and three ticks
        shown = (await client.get("/series")).text
        assert "2024-01-03" in shown
        assert "<figure" in shown

    async def go_on(client: Any, service: Service) -> None:
        await until(service, "done")
        assert service.released == 4
        assert service.jobs[0].said == "2024-01-03 (read back)"
        assert not service.jobs[0].failed
        client.cookies.set("sparseq", service.tokens.create("ana", Role.ANALYST))
        for path in ("/new-series", "/end-series"):
            assert (await client.post(path, data={"name": "visits"})).status_code == 403
        client.cookies.set("sparseq", service.tokens.create("cur", Role.CURATOR))
        assert 'aria-label="End the series visits"' in (await client.get("/curator")).text
        assert (await client.post("/end-series", data={"name": "visits"})).status_code == 303
        assert (await client.post("/end-series", data={"name": "visits"})).status_code == 404
        assert service.jobs == []
        assert "2024-01-03" in (await client.get("/series")).text

    assert [one.name for one in on_pages(folder, begin)] == ["visits"]
    assert on_pages(folder, go_on) == []
