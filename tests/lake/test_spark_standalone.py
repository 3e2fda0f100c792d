"""A lake by Spark with a master and two workers of its own: executors and a worker are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lake.test_lake_reference import lives
from lake.test_rows_that_come import ASKED, twins

from sparseq.lake.lake_store import open_lake
from sparseq.lake.spark_fleet import SparkFleet
from sparseq.store.store import Store

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
pyspark = pytest.importorskip("pyspark", reason="pip install pyspark")
pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs a Java runtime"),
]
_HOME = Path(pyspark.__file__).parent
_OPTIONS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.task.maxFailures": "8",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
}


@dataclass
class Cluster:
    """A master, its workers, and a session."""

    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    session: Any = None

    def executors(self) -> list[int]:
        """The processes that the workers have started."""
        ours, found = {worker.pid for worker in self.workers}, []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(path.read_text().rpartition(")")[2].split()[1])
                words = path.with_name("cmdline").read_bytes()
            except OSError:
                continue
            if parent in ours and b"CoarseGrainedExecutorBackend" in words:
                found.append(int(path.parent.name))
        return found


def started(folder: Path, kind: str, *words: str) -> subprocess.Popen[bytes]:
    """Start a part of the cluster; its words go to a file."""
    name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
    with open(folder / f"{kind}-{len(list(folder.iterdir()))}.log", "wb") as log:
        return subprocess.Popen(
            [str(_HOME / "bin" / "spark-class"), name, *words], stdout=log, stderr=log, cwd=folder
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("spark")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("SPARK_")]:
            patch.delenv(name)  # of sessions that other tests had
        patch.setenv("SPARK_HOME", str(_HOME))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        host, port = address.split(":")
        master = started(folder, "Master", "--host", host, "--port", port, "--webui-port", "0")
        made = Cluster()
        try:
            for k in range(2):
                made.workers.append(
                    started(
                        folder,
                        "Worker",
                        "--cores",
                        "1",
                        "--memory",
                        "1g",
                        "--webui-port",
                        "0",
                        "-d",
                        str(folder / f"work-{k}"),
                        f"spark://{address}",
                    )
                )
            builder = pyspark.sql.SparkSession.builder.master(f"spark://{address}")
            for name, value in _OPTIONS.items():
                builder = builder.config(name, value)
            made.session = builder.getOrCreate()
            yield made
            made.session.stop()
        finally:
            for process in (*made.workers, master):
                process.kill()
                process.wait()


def test_lives_are_those_of_one_machine(tmp_path: Path, cluster: Cluster) -> None:
    asked, answered = lives(tmp_path, 9, 2, 15, SparkFleet(cluster.session))
    print(f"{asked} asked, {answered} answered")
    assert answered > 4


def test_executors_die_and_then_a_worker(tmp_path: Path, cluster: Cluster) -> None:
    """In the midst of questions, and all answers and charges stay those of one machine."""
    both, draw, killed = twins(tmp_path, norm_budget=400.0), random.Random(1), list[int]()
    both.lake.close()
    both.lake = Store(open_lake(tmp_path / "lake", SparkFleet(cluster.session)))

    def kill() -> None:
        time.sleep(draw.uniform(0, 0.5))
        for victim in cluster.executors()[:1]:
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    for k in range(6):
        killer = threading.Thread(target=kill)
        killer.start()
        for sql in ASKED:
            both.ask(
                sql.replace("visits", f"visits WHERE day <> {k} AND x < {k}", 1)
                if "WHERE" not in sql
                else sql.replace("3", f"{k} AND x < {k}")
            )
        killer.join()
    assert len(set(killed)) > 3
    cluster.workers[0].kill()
    both.ask(ASKED[0])
    both.same_accounts()
    print(f"{both.asked} asked, {both.answered} answered, {len(killed)} executors killed")
    assert both.answered == both.asked
