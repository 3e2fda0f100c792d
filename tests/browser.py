"""Pages as they are parsed, and as a headless Chromium shows them, where one is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), "")
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed")
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def loosened(text: str, script: str = "") -> str:
    """A page for a test, with a script and styles of its own: its policy names no other."""
    text = re.sub(r"sha256-[^;]*", "unsafe-inline'", text)
    return text.replace("</html>", f"<script>{script}</script>\n</html>")


def browse(page: Path, profile: Path) -> str:
    """Open a page; return what it has become once its scripts have run."""
    done = subprocess.run(
        [CHROMIUM, *SWITCHES, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()],
        capture_output=True,
        timeout=120,
        check=True,
    )
    return done.stdout.decode()


def shoot(page: Path, profile: Path, width: int) -> NDArray[np.float32]:
    """Open a page in a window so wide; return what is seen, (height, width, red to alpha)."""
    from matplotlib.image import imread

    picture = profile.with_suffix(".png")
    window = f"--window-size={width},700"
    subprocess.run(
        [
            CHROMIUM,
            *SWITCHES,
            f"--user-data-dir={profile}",
            "--hide-scrollbars",
            window,
            f"--screenshot={picture}",
            page.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )
    return np.asarray(imread(picture), np.float32)


VOID = {"meta", "input"}


class Page(HTMLParser):
    """Collects elements, attributes and text; fails on a tag that closes no open one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)

    def paths(self, kind: str) -> list[str]:
        """The drawn paths of a class."""
        return [str(a["d"]) for t, a in self.found if t == "path" and a["class"] == kind]
