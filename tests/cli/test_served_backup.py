"""What the operator of a server asks of it on its machine; and what it writes down."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from command_runs import output, run
from server.made import made

import sparseq
from sparseq.ledger._duckdb.mark import MarkFile
from sparseq.server.audit import AuditLog
from sparseq.store.address import CONTROL, served_at

running = pytest.importorskip("sparseq.server.serve")
COUNT = "SELECT count(*) AS n FROM t"


@pytest.mark.deep
def test_a_served_store_is_backed_up_and_the_copy_is_behind_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runtime := Path(tempfile.mkdtemp(prefix="r"))).chmod(0o700)
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(runtime))
    store, copy, mark = tmp_path / "s.sparseq", tmp_path / "c.sparseq", tmp_path / "mark"
    with made(store) as con:
        con.sql(COUNT)
    output("mark", store, mark)

    def ask() -> None:
        door = Path(served_at(store)[1].removeprefix(CONTROL))
        assert stat.S_IMODE(door.parent.stat().st_mode) == 0o700
        assert door.parent.parent == runtime
        assert "everything up to release 1" in elsewhere("backup", store, copy).stdout
        again = elsewhere("backup", store, copy)
        assert (again.returncode, "exists already" in again.stderr) == (4, True)
        assert elsewhere("history", store).returncode == 5
        assert elsewhere("history", copy).returncode == 5

    async def main() -> None:
        place = running.Serving(store, http=running.Address("127.0.0.1", 0))
        done = []

        def ready(_: str) -> None:
            done.append(asyncio.ensure_future(asyncio.to_thread(ask)))
            done[0].add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGTERM))

        await running.serve(place, ready)
        await done[0]

    asyncio.run(main())
    runtime.rmdir()  # nothing is left in it
    assert [line["file"] for line in told(store, "backup")] == [copy.name]
    with sparseq.connect(store) as con:
        con.sql(COUNT, fresh=True)
    behind = run("history", copy)
    assert (behind.exit_code, "c.sparseq lacks 1 answer" in behind.stderr) == (4, True)
    output("recover", copy, "--accept-loss")
    output("recover", copy, "--accept-loss")
    assert ["lacks 1 answer" in line["missing"] for line in told(copy, "loss accepted")] == [True]
    assert "not the copy that was asked last" in run("history", store).stderr
    assert MarkFile(mark).take() is not None


def elsewhere(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own: this one's standard output is in use."""
    environment = os.environ | {"PYTHONPATH": str(Path(sparseq.__file__).parents[1])}
    command = [sys.executable, "-m", "sparseq", *map(str, args)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def told(store: Path, what: str) -> list[dict[str, str]]:
    log = AuditLog.beside(store)
    log.verify()
    return [line for line in log.lines() if line["what"] == what]
