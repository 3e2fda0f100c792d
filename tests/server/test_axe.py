"""Every page under axe-core in Chromium: labels, contrast, keys, landmarks; light, dark, phone.

axe-core is none of the project's packages: AXE names its file, or npm fetches it for the test.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, SWITCHES, needs_browser
from server.made import ROWS, made

from sparseq.ledger.request_id import Asker, RequestId
from sparseq.server.job import JobState
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens

httpx = pytest.importorskip("httpx")
uvicorn = pytest.importorskip("uvicorn")
app = pytest.importorskip("sparseq.server.http.app")

HERE = {"Origin": "http://here"}
RUN = """
axe.run(document, {resultTypes: ["violations"]}).then(async (found) => {
  const places = (nodes) => nodes.map((node) => node.html.slice(0, 200));
  const said = found.violations.map((v) => [v.id, v.help, places(v.nodes)]);
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) said.push(["wider", "the page is wider than its window by " + wide, []]);
  const next = await fetch("/axe-found", {method: "POST", body: JSON.stringify(said)});
  const path = await next.text();
  if (path) location.href = path;
});
"""
PAGES = (
    "/",
    "/ask",
    "/ask?sql=SELECT+kind,+count(*)+AS+n+FROM+t+GROUP+BY+kind",
    "/ask?sql=SELEC",
    "/dashboard",
    "/saved",
    "/saved/1",
    "/saved/2",
    "/answers",
    "/answers?ticks=1",
    "/answers/1?repeat=1",
    "/answers/2",
    "/answers/99",
    "/known?sql=SELECT+count(*)+AS+n+FROM+t+WHERE+x+=+1",
    "/series",
    "/series/daily",
    "/new-series",
    "/new-series?sql=SELECT+1&name=a&first=2024-01-01",
    "/budget",
    "/curator",
    "/curator/audit",
    "/curator/audit?who=nobody",
    "/sign-in-page",
)


def axe(folder: Path) -> Path:
    """The script of axe-core; skips where it is not to be had."""
    if "AXE" in os.environ:
        return Path(os.environ["AXE"])
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("AXE names no file, and there is no npm")
    command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "axe-core"]
    try:
        subprocess.run(command, capture_output=True, timeout=120, check=True)
    except subprocess.SubprocessError:
        pytest.skip("npm can't fetch axe-core")
    return folder / "node_modules" / "axe-core" / "axe.min.js"


class Watched:
    """The application as a browser sees that has signed in, each page with axe-core beside it."""

    def __init__(self, application: Any, secret: str, script: str) -> None:
        self.application, self.script = application, script
        self.cookie = f"sparseq={secret}".encode()
        self.found: dict[str, Any] = {}
        self.finished = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        if path in ("/axe.js", "/axe-run.js"):
            text = self.script if path == "/axe.js" else RUN
            await answer(send, text, "text/javascript")
        elif path == "/axe-found":
            self.found[PAGES[len(self.found)]] = json.loads(await body(receive))
            if len(self.found) == len(PAGES):
                self.finished.set()
            await answer(send, "" if self.finished.is_set() else PAGES[len(self.found)])
        elif path == "/events":
            await answer(send, "", "text/event-stream", 204)
        else:
            await self.page(scope, receive, send)

    async def page(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/sign-in-page":
            scope = scope | {"path": "/"}
        else:
            scope = scope | {"headers": [*scope["headers"], (b"cookie", self.cookie)]}
        start: dict[str, Any] = {}

        async def changed(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            data = message["body"]
            if b"</main>" in data:
                scripts = b'<script src="/axe.js"></script><script src="/axe-run.js"></script>'
                data = data.replace(b"</body>", scripts + b"</body>")
            kept = [h for h in start["headers"] if h[0] != b"content-length"]
            await send(start | {"headers": [*kept, (b"content-length", b"%d" % len(data))]})
            await send({"type": "http.response.body", "body": data})

        await self.application(scope, receive, changed)


async def body(receive: Any) -> bytes:
    data, more = b"", True
    while more:
        message = await receive()
        data, more = data + message["body"], message.get("more_body", False)
    return data


async def answer(send: Any, text: str, kind: str = "text/plain", status: int = 200) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(text.encode()))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})


async def filled(service: Service, application: Any, secret: str) -> None:
    """Ask, save, keep a series and revoke a token, so that every page has something to show."""
    x = "SELECT x, count(*) AS n FROM t WHERE x IN (1, 2, 3) GROUP BY x"
    kind = "SELECT kind, count(*) AS n FROM t GROUP BY kind"
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(application), base_url="http://here", headers=HERE
    )
    client.cookies.set("sparseq", secret)
    for k, sql in enumerate((x, kind), 1):
        await client.post("/ask", data={"sql": sql})
        saved = {"sql": sql, "name": f"Saved {k}", "place": str(k), "answer": str(k)}
        await client.post("/saved", data=saved)
    await client.post("/curator/tokens", data={"name": "bob"})
    await client.post("/curator/tokens", data={"name": "eve", "days": "3"})
    await client.post("/curator/revoke", data={"name": "bob"})
    await client.aclose()

    def ask(store: Any) -> None:
        for day in range(1, 9):
            query = store.lower(f"SELECT count(*) AS n FROM t WHERE x > {day / 2}")
            tick = (dt.date(2024, 1, 1) + dt.timedelta(days=day)).isoformat()
            store.ask(query, request_id=RequestId.of(Asker.MONITOR, "daily", tick, question="n"))
        store.ingest(ROWS.slice(0, 9))  # saved questions are to be asked anew

    await service.operate(ask)
    service.jobs = [JobState("nightly", "backup", "failed", "no room", "2024-01-01T00:00")]


async def visited(script: str, profile: Path, switches: list[str]) -> dict[str, Any]:
    """Return what axe-core finds, by page."""
    service = Service(made(), Tokens(None))
    application = app.application(service)
    secret = service.tokens.create("cora", Role.CURATOR)
    await filled(service, application, secret)
    watched = Watched(application, secret, script)
    server = uvicorn.Server(
        uvicorn.Config(watched, port=0, log_level="error", lifespan="off", ws="none")
    )
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    browser = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *SWITCHES,
        *switches,
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
        f"http://127.0.0.1:{port}{PAGES[0]}",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        await asyncio.wait_for(watched.finished.wait(), 60)
    finally:
        browser.kill()
        await browser.wait()
        server.should_exit = True
        await serving
        await service.close()
    return watched.found


@pytest.mark.deep
@needs_browser
@pytest.mark.parametrize("width", [1000, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(scheme: str, width: int, tmp_path: Path) -> None:
    """No quicker test looks at contrast, or at what a page is to a screen's reader."""
    script = axe(tmp_path / "axe").read_text("utf-8")
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    switches = [*dark, f"--window-size={width},900"]
    found = asyncio.run(visited(script, tmp_path / "profile", switches))
    assert len(found) == len(PAGES)
    said = [f"{page}: {json.dumps(one)}" for page, some in found.items() for one in some]
    assert not said, "\n".join(said)
