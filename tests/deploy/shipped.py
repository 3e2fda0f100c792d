"""What is shipped in deploy/, read as systemd and Docker read it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CONFINED = Path(__file__).with_name("confined.py")
KEPT = [str(ROOT), sys.prefix, sys.base_prefix, "/tmp"]


def unit() -> dict[str, list[str]]:
    """Return the settings of the systemd unit: each has its lines."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (ROOT / "deploy" / "sparseq.service").read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name].append(value)
    return found


@cache
def groups() -> dict[str, frozenset[str]]:
    """Return the calls of each group that the unit may name."""
    text = Path(__file__).with_name("syscalls.txt").read_text()
    parts = re.findall(r"^(@[a-z-]+)\n((?:[a-z0-9_ ]+\n?)+)", text, re.M)
    return {name: frozenset(calls.split()) for name, calls in parts}


def calls_of(filters: list[str]) -> frozenset[str]:
    """Return the calls that a unit's SystemCallFilter= lines leave (systemd.exec(5))."""
    assert not filters[0].startswith("~"), "the first line says what is allowed"
    allowed = set(groups()["@default"])
    for line in filters:
        for word in line.removeprefix("~").split():
            calls = groups()[word] if word.startswith("@") else {word}
            (allowed.difference_update if line.startswith("~") else allowed.update)(calls)
    return frozenset(allowed)


def dockerfile() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions with what follows them."""
    text = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", "")
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def instruction(name: str) -> str:
    """Return what follows an instruction that the Dockerfile has once."""
    (found,) = [rest for word, rest in dockerfile() if word == name]
    return found


def compose() -> dict[str, Any]:
    """Return the service of the compose file; it is YAML of one line a key."""
    import yaml

    found: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yml").read_text())
    return found


@cache
def can_isolate() -> bool:
    """Tell whether this process may make namespaces: as root, outside of a strict container."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return False
    given = {
        "kept": KEPT,
        "steps": "",
        "volumes": [],
        "after": "",
        "user": "root",
        "command": ["/bin/true"],
        "environment": {},
    }
    return not subprocess.run(confined(given), capture_output=True).returncode


def confined(given: dict[str, Any]) -> list[str]:
    """Return the command that runs one confined: see `confined.main`."""
    own = ["unshare", "--mount"] if "volumes" in given else []
    return [*own, sys.executable, str(CONFINED), json.dumps(given)]


@contextlib.contextmanager
def running(given: dict[str, Any], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server confined until the block ends; what it says goes to a file."""
    with open(log, "wb") as to, subprocess.Popen(confined(given), stdout=to, stderr=to) as server:
        try:
            yield server
        finally:
            if server.poll() is None:
                server.kill()


def listens(server: subprocess.Popen[bytes], log: Path, seconds: float = 60) -> None:
    """Wait until a server says that it is there."""
    end = time.monotonic() + seconds
    while b"is served at" not in log.read_bytes():
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
