"""The package, built and installed in an empty environment, works on every Python that it names."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def python(version: str) -> str:
    """Return where a Python of a version is, on the path or among those of pyenv; or "" """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    theirs = sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    for place in filter(None, [shutil.which(f"python{version}"), *map(str, theirs)]):
        said = subprocess.run([place, "--version"], capture_output=True, text=True)
        if said.returncode == 0 and said.stdout.startswith(f"Python {version}."):
            return place
    return ""


@pytest.mark.deep
@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works_in_an_empty_environment(version: str) -> None:
    """`.ci/wheel` by every Python that is here; CI runs it by one."""
    place = python(version)
    if not place:
        pytest.skip(f"there is no Python {version} here")
    done = subprocess.run(
        [ROOT / ".ci" / "wheel"],
        env=os.environ | {"PYTHON": place},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert done.stdout.splitlines()[-1].startswith(f"the wheel works on Python {version}.")
