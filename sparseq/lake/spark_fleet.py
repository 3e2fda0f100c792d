"""A fleet of Spark's executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from sparseq.base.errors import StoreError
from sparseq.lake.task import answer_of, told

_ANSWERS = pa.schema({"place": pa.int64(), "answer": pa.binary()})


class SparkFleet:
    """Runs tasks in a Spark session: classic or Connect.

    Every executor needs this version of sparseq, and the lake's folder under the same path. A task
    that Spark repeats, or runs twice, gives the same result; Spark passes on one of them.

    Args:
        session: The session; it stays open.
    """

    def __init__(self, session: Any) -> None:
        self._session, self._ours = session, False

    @classmethod
    def at(cls, address: str) -> SparkFleet:
        """Return a fleet of the executors at an address; its session ends with it.

        Args:
            address: The address of Spark Connect, sc://HOST; or of a classic master,
                spark://HOST:7077 or local[*].

        Raises:
            StoreError: pyspark is not installed.
        """
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise StoreError(
                "Spark needs a package that is not installed: pyspark",
                "pip install 'pyspark[connect]'",
            ) from None
        builder = SparkSession.builder.appName("sparseq")
        remote = address.startswith("sc://")
        fleet = cls((builder.remote(address) if remote else builder.master(address)).getOrCreate())
        fleet._ours = True
        return fleet

    def run(self, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """See `Fleet`: one job."""
        todo = list(tasks)

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for place in batch["id"].to_pylist():
                    yield pa.RecordBatch.from_pydict(
                        {"place": [place], "answer": [told(todo[place])]}, schema=_ANSWERS
                    )

        places = self._session.range(0, len(todo), 1, len(todo))
        found = places.mapInArrow(work, "place long, answer binary").toArrow().sort_by("place")
        if found["place"].to_pylist() != list(range(len(todo))):
            raise StoreError("Spark did not answer each task exactly once")
        return map(answer_of, found["answer"].to_pylist())

    def close(self) -> None:
        """See `Fleet`."""
        if self._ours:
            self._session.stop()
