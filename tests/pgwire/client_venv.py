"""Clients that need an environment of their own: found, or made once with pip."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

VARIABLE = "SPARSEQ_TEST_CLIENTS"
"""Names the folder of the environments; ~/.cache/sparseq-test-clients if it is not set."""
PATIENCE = 900
"""Seconds that pip may take for one."""


def programs(name: str, *requirements: str) -> Path:
    """Return the folder of a client's programs; without them, the test is skipped.

    Args:
        name: Of the client; `$SPARSEQ_TEST_CLIENTS/NAME` is taken as it is.
        requirements: Of pip; other ones make another environment.
    """
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else Path.home() / ".cache" / "sparseq-test-clients"
    if (folder / name / "bin" / "python").exists():
        return folder / name / "bin"
    digest = hashlib.sha256(" ".join([sys.version, *requirements]).encode()).hexdigest()
    made = folder / f"{name}-{digest[:12]}"
    if not (made / "whole").exists():
        _make(made, requirements, name)
    return made / "bin"


def _make(made: Path, requirements: tuple[str, ...], name: str) -> None:
    pip = [made / "bin" / "python", "-m", "pip", "install", "-q", *requirements]
    try:
        for command in ([sys.executable, "-m", "venv", "--clear", made], pip):
            subprocess.run(
                list(map(str, command)),
                check=True,
                timeout=PATIENCE,
                capture_output=True,
                text=True,
            )
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        pytest.skip(f"{name} can't be installed: {said[-1] if said else error}")
    (made / "whole").touch()
