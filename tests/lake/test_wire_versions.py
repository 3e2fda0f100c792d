"""Who is of another version is refused before it computes anything."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import sparseq
from sparseq.lake import task_messages
from sparseq.lake.fleets import Processes
from sparseq.lake.task import answer_of, told
from sparseq.lake.task_messages import pack_frame, unpack_frame


@pytest.mark.parametrize("what", task_messages.VERSION)
def test_a_task_of_another_version_is_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as other:
        other.setitem(task_messages.VERSION, what, "0.0.1")
        task = pack_frame({"do": "rows", "bucket": "none", "place": 0})
    said = f"{what} 0.0.1 and {task_messages.VERSION[what]}"
    with pytest.raises(sparseq.StoreError, match="differ") as here:
        unpack_frame(task)
    assert said in here.value.message
    with pytest.raises(sparseq.StoreError, match=said):
        answer_of(told(task))


def test_a_worker_of_another_version_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Processes(1)
    monkeypatch.setitem(task_messages.VERSION, "sparseq", "0.0.1")
    with pytest.raises(sparseq.StoreError, match=r"differ: sparseq 0\.0\.1 and"):
        list(fleet.run([pack_frame({"do": "rows", "bucket": "none", "place": 0})]))
    fleet.close()


def test_a_lake_of_another_version_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
    folder = f"lake://{tmp_path / 'lake'}"
    sparseq.create(folder, {"t": pa.table({"who": [1, 2]})}, user="who", buckets=1).close()
    manifest = tmp_path / "lake" / "lake.json"
    said = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(said | {"format": said["format"] | {"buckets": 3}}))
    with pytest.raises(sparseq.StoreError, match="lakes are not upgraded"):
        sparseq.connect(folder)
