"""The versions that were tested are those that are installed by the README's commands and by CI."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from constraints import constraints
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"].values()
NEEDED = [*PROJECT["dependencies"], *(one for extra in EXTRAS for one in extra)]


def _parts(requirement: str) -> tuple[str, str]:
    found = re.fullmatch(r"([\w.-]+)(?:\[.*\])?(.*)", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[1]).lower(), found[2]


@pytest.mark.parametrize("requirement", NEEDED)
def test_what_is_needed_has_a_tested_version_in_its_range(requirement: str) -> None:
    name, range = _parts(requirement)
    assert SpecifierSet(range).contains(constraints()[name])


@pytest.mark.parametrize("name", ["duckdb", "sqlglot"])
def test_what_decides_what_a_query_means_stays_below_the_next_minor(name: str) -> None:
    ranges = dict(map(_parts, PROJECT["dependencies"]))
    major, minor = constraints()[name].split(".")[:2]
    assert ranges[name].endswith(f",<{major}.{int(minor) + 1}")


def test_commands_install_what_was_tested() -> None:
    """Each `pip install` of the package, wherever it stands: make, CI, the image."""
    for file in ("Makefile", ".ci/run", ".ci/wheel", "deploy/Dockerfile"):
        text = (ROOT / file).read_text("utf-8")
        for line in re.findall(r"^.*pip install.*$", text, re.M):
            if not line.lstrip().startswith("#"):
                assert "constraint" in line or "PIP_CONSTRAINT=" in text, (file, line)
