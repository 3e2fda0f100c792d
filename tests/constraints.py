"""The versions of packages that were tested: `constraints.txt`."""

import re
from functools import cache
from pathlib import Path

CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"


def pinned(package: str) -> str:
    """Return the version of a package that `constraints.txt` has."""
    return constraints()[_canonical(package)]


@cache
def constraints() -> dict[str, str]:
    """Return the version of each package, by its canonical name."""
    lines = CONSTRAINTS.read_text("utf-8").splitlines()
    pairs = (line.split("#")[0].strip().split("==") for line in lines if "==" in line)
    return {_canonical(name): version for name, version in pairs}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
