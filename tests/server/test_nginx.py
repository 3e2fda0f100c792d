"""Behind nginx as Debian has it: `proxy_pass` alone, so Host is the server's own address."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from server.made import made
from server.running import Running, secret

from sparseq.server.tokens import Role

httpx = pytest.importorskip("httpx")
NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed"),
]
CONFIG = """
daemon off; pid {folder}/pid; error_log {folder}/errors;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {backend}; }}
  }}
}}
"""


@contextmanager
def behind_nginx(folder: Path, *options: str) -> Iterator[tuple[str, str]]:
    """Yield where browsers find a server (`{url}` in options), and a curator's token."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, store = f"http://127.0.0.1:{port}", folder / "s.sparseq"
    made(store).close()
    running = Running(store, *(option.format(url=url) for option in options))
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, port=port, backend=running.url))
    assert NGINX is not None
    nginx = subprocess.Popen([NGINX, "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield url, secret(store, "cur", Role.CURATOR)
    finally:
        nginx.terminate()
        nginx.wait(20)
        running.kill()


def test_a_browser_that_says_where_its_forms_come_from(tmp_path: Path) -> None:
    """Every present one does, for https and this machine: nothing has to be set."""
    with behind_nginx(tmp_path) as (url, token), httpx.Client(base_url=url) as browser:
        own = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
        assert browser.post("/sign-in", data={"token": token}, headers=own).status_code == 303
        asked = browser.post(
            "/ask", data={"sql": "SELECT count(*) AS n FROM t"}, headers=own, follow_redirects=True
        )
        assert asked.status_code == 200
        assert "Answer 1" in asked.text
        with browser.stream("GET", "/events", headers={"Last-Event-ID": "0"}) as stream:
            lines = stream.iter_lines()
            assert "event: release" in [next(lines) for _ in range(4)]  # not kept by nginx
        for site in ("cross-site", "same-site"):
            there = own | {"Sec-Fetch-Site": site}
            assert browser.post("/sign-out", headers=there).status_code == 403
        assert browser.get("/curator").status_code == 200
        assert browser.post("/sign-out", headers=own).status_code == 303


def test_a_browser_that_says_its_origin_alone(tmp_path: Path) -> None:
    """The server is to know where browsers find it; without, the refusal says so."""
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    with behind_nginx(tmp_path / "without") as (url, token):
        refused = httpx.post(f"{url}/sign-in", data={"token": token}, headers={"Origin": url})
        assert refused.status_code == 403
        assert "--url" in refused.text
    with behind_nginx(tmp_path / "with", "--url", "{url}/") as (url, token):
        done = httpx.post(f"{url}/sign-in", data={"token": token}, headers={"Origin": url})
        assert done.status_code == 303
        evil = httpx.post(
            f"{url}/sign-in", data={"token": token}, headers={"Origin": "http://evil"}
        )
        assert evil.status_code == 403


def test_who_has_no_token_keeps_nobody_out(tmp_path: Path) -> None:
    """All come from one address: that of nginx."""
    with behind_nginx(tmp_path) as (url, token):
        for _ in range(40):
            assert httpx.get(f"{url}/v1/catalog").status_code == 401
        head = {"Authorization": "Bearer sq_wrong"}
        assert httpx.get(f"{url}/v1/catalog", headers=head).status_code == 401
        assert httpx.get(
            f"{url}/v1/catalog", headers={"Authorization": f"Bearer {token}"}
        ).is_success
