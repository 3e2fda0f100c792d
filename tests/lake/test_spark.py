"""A lake by Spark on this machine: classic, and by Spark Connect."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lake.test_lake_reference import lives

import sparseq
from sparseq.lake.spark_fleet import SparkFleet
from sparseq.lake.task_messages import pack_frame

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
sql = pytest.importorskip("pyspark.sql", reason="pip install pyspark")
pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs a Java runtime"),
]


@pytest.fixture(scope="module", params=["classic", "connect"])
def session(request: pytest.FixtureRequest) -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    builder = sql.SparkSession.builder
    if request.param == "connect":
        pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")
        builder = builder.remote("local[2]")
    else:
        builder = builder.master("local[2]")
        for name, value in options.items():
            builder = builder.config(name, value)
    made = builder.getOrCreate()
    assert ("connect" in type(made).__module__) == (request.param == "connect")
    yield made
    made.stop()


def test_spark_gives_the_same_answers_and_charges(tmp_path: Path, session: Any) -> None:
    """Lives with files and erasures by executors: what is sent is all that they have."""
    asked, answered = lives(tmp_path, 7, 4, 25, SparkFleet(session))
    print(f"{asked} asked, {answered} answered")
    assert asked > 70
    assert answered > 20


def test_a_task_that_fails_on_an_executor_tells_no_row(session: Any) -> None:
    wrong = pack_frame({"do": "measures", "bucket": __file__, "place": 0, "plans": []})
    with pytest.raises(sparseq.StoreError, match=r"^a task failed: [A-Za-z]+$"):
        list(SparkFleet(session).run([wrong]))


def test_spark_is_found_by_its_address(tmp_path: Path) -> None:
    folder = f"lake://{tmp_path / 'lake'}"
    sparseq.create(folder, {"t": pa.table({"who": [1, 2]})}, user="who", buckets=2).close()
    asking = (
        f"import sparseq; con = sparseq.connect({folder!r}); "
        "con.sql('SELECT count(*) AS n FROM t'); print(type(con.backend.database).__name__)"
    )
    said = subprocess.run(
        [sys.executable, "-c", asking],
        capture_output=True,
        text=True,
        check=True,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("SPARK_")},
            "SPARSEQ_SPARK": "local[1]",
            "PYSPARK_PYTHON": sys.executable,
        },
    )
    assert said.stdout.split() == ["SparkFleet"]
    with sparseq.connect(folder) as lake:
        assert lake.released == 1
