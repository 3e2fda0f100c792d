"""A log of many lines: a server starts as soon, and every page answers as fast."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path

import pytest
from server.made import made
from server.running import Running, secret

from sparseq.server.audit import AuditLog
from sparseq.server.http import app, pages
from sparseq.server.quota_totals import QuotaTotals
from sparseq.server.tokens import Role

pytest.importorskip("uvicorn")
TEXT = "SELECT kind, count(*) AS n FROM t WHERE x BETWEEN 1 AND 5 GROUP BY kind"


def grown(store: Path, lines: int, each: int = 1000) -> AuditLog:
    """A log as a server would have written it: repeats, answers and refusals of ten names."""
    log, tally = AuditLog.beside(store), QuotaTotals()
    for first in range(0, lines, each):
        clock = first * 0.5
        some = [
            {
                "at": f"2024-01-01T00:00:00.{k % 1000:03}+00:00",
                "clock": clock,
                "who": f"a{k % 10}",
                "source": "http 192.0.2.1",
                "query": TEXT,
            }
            | (
                {"what": "refused", "why": "QueryRefused"}
                if k % 10 == 0
                else {"what": "asked", "release": 1, "price": 0.0, "repeat": True}
                if k % 100
                else {"what": "asked", "release": 1, "price": 0.001}
            )
            for k in range(first, min(first + each, lines))
        ]
        for line in some:
            tally.take(line)
        log.add(some)
        if log.full:
            log.turn({"at": some[-1]["at"], "clock": clock} | tally.line())
    return log


def took(url: str, token: str) -> float:
    head = {"Authorization": f"Bearer {token}", "Cookie": f"sparseq={token}"}
    began = time.perf_counter()
    with urllib.request.urlopen(urllib.request.Request(url, headers=head)) as answer:
        assert answer.status == 200
        assert b'name="token"' not in answer.read()
    return time.perf_counter() - began


def check(folder: Path, lines: int) -> tuple[float, dict[str, float]]:
    """Return the seconds until a server with such a log is there, and those of each page."""
    store = folder / "s.sparseq"
    con = made(store)
    con.sql(TEXT)
    con.close()
    token = secret(store, "cur", Role.CURATOR)
    log = grown(store, lines)
    began = time.perf_counter()
    running = Running(store)
    started = time.perf_counter() - began
    paths = [
        one.path
        for one in (*app.ENDPOINTS, *pages.PAGES)
        if one.method == "GET"
        and not one.path.endswith("/events")
        and not any(part in one.path for part in ("{name", "/saved/{", "/known"))
    ]
    paths += ["/v1/audit?last=1", "/v1/audit?last=10000", "/healthz"]
    paths += ["/curator/audit?who=nobody", "/curator/audit?before=5000&who=ada"]
    each = {path: took(running.url + path.replace("{number}", "1"), token) for path in paths}
    assert running.stop() == 0
    assert log.latest(1)[0]["what"] == "stopped"
    return started, each


def test_a_log_of_5_000_lines(tmp_path: Path) -> None:
    _, each = check(tmp_path, 5_000)
    assert len(each) > 15


@pytest.mark.deep
def test_a_log_of_a_million_lines(tmp_path: Path) -> None:
    """A server starts, and every page answers, nearly as fast as with a log of 20,000 lines."""
    (tmp_path / "few").mkdir()
    (tmp_path / "many").mkdir()
    few, of_few = check(tmp_path / "few", 20_000)
    many, of_many = check(tmp_path / "many", 1_000_000)
    assert many < 3 * few
    slower = {path: (s, of_few[path]) for path, s in of_many.items() if s > 10 * of_few[path] + 0.5}
    assert not slower
