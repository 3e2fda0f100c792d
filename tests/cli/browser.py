"""A headless Chromium, where one is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), "")
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed")
_SWITCHES = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-sync", "--disable-background-networking", "--disable-component-update",
    "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


def browse(page: Path, profile: Path) -> str:
    """Open a page; return what it has become once its scripts have run."""
    done = subprocess.run(
        [CHROMIUM, *_SWITCHES, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()],
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
            CHROMIUM, *_SWITCHES, f"--user-data-dir={profile}", "--hide-scrollbars", window,
            f"--screenshot={picture}", page.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )  # fmt: skip
    return np.asarray(imread(picture), np.float32)
