"""The systemd unit as it is shipped: its own rules for calls, files and its user, and its command.

systemd itself is not there in a test, so the rules are read from the unit and put into force by the
same means of Linux. That they are in force is tested too.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deploy.confined import library
from deploy.shipped import KEPT, ROOT, calls_of, can_isolate, confined, listens, running, unit

import sparseq
from sparseq.server.tokens import Role, Tokens

pytestmark = pytest.mark.skipif(library() is None, reason="libseccomp.so.2, which Debian has")
USER = "nobody"  # as little as systemd's DynamicUser
FOLDERS = {"State": "/var/lib", "Runtime": "/run", "Cache": "/var/cache"}
IMPORTS = "import numpy, scipy.stats, duckdb, polars, pyarrow.parquet, sparseq, sparseq.compiled"
CALL = "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall({}, 0, 0, 0, 0, 0, 0) != -1)"


def rules(**more: Any) -> dict[str, Any]:
    """Return what the unit allows, as `confined` wants it."""
    said = unit()
    environment = dict(line.split("=", 1) for line in said["Environment"])
    return {
        "calls": sorted(calls_of(said["SystemCallFilter"])),
        "families": said["RestrictAddressFamilies"][0].split(),
        "kills": said["SystemCallErrorNumber"] != ["EPERM"],
        "umask": said["UMask"][0],
        "environment": environment
        | {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        **more,
    }


def folders() -> list[str]:
    """Return the folders that systemd makes for the unit, and that it may write to."""
    said = unit()
    assert said["ProtectSystem"] == ["strict"], "nothing else can be written to"
    made = [f"{above}/{said[f'{of}Directory'][0]}" for of, above in FOLDERS.items()]
    return [*made, *(["/tmp"] if said["PrivateTmp"] == ["yes"] else [])]


def isolated(store: Path, **more: Any) -> dict[str, Any]:
    """Return the unit's rules with its files and user, beside a copy of a store."""
    modes = {f"{above}/sparseq": unit()[f"{of}DirectoryMode"][0] for of, above in FOLDERS.items()}
    made = [f"install -d -o {USER} -m {mode} {folder}" for folder, mode in modes.items()]
    command = f"exec {sys.executable} -m sparseq"
    steps = [
        *made,
        "install -d -m 755 /opt/sparseq/bin",
        f"printf '#!/bin/sh\\n{command} \"$@\"\\n' > /opt/sparseq/bin/sparseq",
        "chmod 755 /opt/sparseq/bin/sparseq",
        *(f"chmod a+x {p}" for p in Path(sys.executable).resolve().parents),
        f"install -d -m 755 /given; cp {store}* /given",
    ]
    return rules(
        kept=KEPT,
        user=USER,
        volumes=folders(),
        steps="; ".join(steps),
        after=f"cp /given/* /var/lib/sparseq; chown {USER} /var/lib/sparseq/*",
        **more,
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.sparseq"
    rows = pa.table({"who": [*range(300)], "v": [*range(300)]})
    sparseq.create(path, {"t": rows}, user="who", seed=1).close()
    return path


def test_the_rules_are_in_force() -> None:
    """A call that the unit does not allow fails; `mbind`, which NumPy makes, is allowed."""
    seccomp = library()
    assert seccomp is not None
    for name, fails in (("swapon", True), ("getpid", False)):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        given = rules(command=[sys.executable, "-c", CALL.format(number)])
        assert subprocess.run(confined(given)).returncode == (0 if fails else 1), name
    assert {"mbind", "sched_setaffinity"} <= calls_of(unit()["SystemCallFilter"])
    former = calls_of(["@system-service", "~@privileged @resources"])
    number = seccomp.seccomp_syscall_resolve_name(b"mbind")
    given = rules(command=[sys.executable, "-c", CALL.format(number)])
    done = subprocess.run(confined(given | {"calls": sorted(former), "kills": True}))
    assert done.returncode == -signal.SIGSYS  # exit code 159 of a shell


@pytest.mark.parametrize("code", [IMPORTS, "import sparseq.compiled.loops"], ids=["all", "fast"])
def test_all_that_is_imported_can_be(store: Path, code: str) -> None:
    if "loops" in code:
        pytest.importorskip("numba")
    command = [sys.executable, "-c", code]
    given = isolated(store, command=command) if can_isolate() else rules(command=command)
    done = subprocess.run(confined(given), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_service_starts_answers_and_stops(store: Path, tmp_path: Path) -> None:
    token = Tokens.beside(store).create("ada", Role.ANALYST)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (line,) = unit()["ExecStart"]
    assert line.split()[2] == "/var/lib/sparseq/store.sparseq"
    command = line.replace(":8080", f":{port}").split()
    if can_isolate():
        given = isolated(store, command=command)
        given["environment"]["RUNTIME_DIRECTORY"] = "/run/sparseq"
    else:
        here = [sys.executable, "-m", "sparseq", command[1], str(store), *command[3:]]
        given = rules(command=here)
    log = tmp_path / "log"
    with running(given, log) as server:
        listens(server, log)
        with sparseq.connect(f"http://127.0.0.1:{port}", token=token) as con:
            assert con.sql("SELECT count(*) AS n FROM t WHERE v < 100").pl().height == 1
        server.send_signal(getattr(signal, unit()["KillSignal"][0]))
        assert server.wait(60) == 0, log.read_text()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "sparseq.service").read_text()
    (tmp_path / "sparseq.service").write_text(text.replace("/opt/sparseq/bin/sparseq", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "sparseq.service")],
        capture_output=True,
        text=True,
    )
    assert "sparseq.service:" not in done.stderr
