"""Fleets that do tasks: bytes in, and bytes back in the order of the tasks."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, Protocol

import pyarrow as pa

from sparseq.base.errors import StoreError
from sparseq.lake.task import answer_of, done, told

# -- fleets that do tasks: bytes in, and bytes back in the order of the tasks ----------------------

_TRIES = 3


class Fleet(Protocol):
    """Does tasks (`sparseq.lake.task.done`), each at least once, anywhere."""

    def run(self, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield what comes of each task, in their order.

        Raises:
            StoreError: A task failed again and again.
        """

    def close(self) -> None:
        """Let go of what it has."""


class Here:
    """Does tasks in this process, one after the other."""

    def run(self, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """See `Fleet`."""
        return map(done, tasks)

    def close(self) -> None:
        """See `Fleet`."""


class Processes:
    """Does tasks in processes of this machine, which are started when they are needed.

    Each is `python -m sparseq.lake.worker`, and speaks over its standard input and output. One
    that dies is replaced, and its task done again: tasks are functions of their input.

    Args:
        count: How many; by default a core each.
    """

    def __init__(self, count: int | None = None) -> None:
        self._count = count or os.cpu_count() or 1
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self.workers: list[Worker] = []

    def run(self, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """See `Fleet`."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._count)
            for _ in range(self._count):
                self._start()
        return self._threads.map(self._done, tasks)

    def _start(self) -> None:
        worker = Worker()
        with self._lock:
            self.workers.append(worker)
        self._idle.put(worker)

    def _replace(self, worker: Worker) -> None:
        """Start another first: who waits for one must never wait in vain."""
        self._start()
        with self._lock:
            self.workers.remove(worker)
        worker.close()

    def _done(self, task: bytes) -> bytes:
        for _ in range(_TRIES):
            worker = self._idle.get()
            try:
                answer = worker.done(task)
            except (OSError, EOFError):
                self._replace(worker)
                continue
            except BaseException:
                self._replace(worker)
                raise
            self._idle.put(worker)
            return answer_of(answer)
        raise StoreError(f"a task ended its process {_TRIES} times", "is there memory enough?")

    def close(self) -> None:
        """See `Fleet`."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None
        for worker in self.workers:
            worker.close()
        self.workers = []
        self._idle = queue.SimpleQueue()


class Worker:
    """A process that does one task at a time."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sparseq.lake.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def done(self, task: bytes) -> bytes:
        """Return what comes of a task, after a byte that says how it went.

        Raises:
            OSError, EOFError: The process has ended.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        send(self.process.stdin, task)
        answer = receive(self.process.stdout)
        if not answer:
            raise EOFError
        return answer

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what it was not sent is no matter
                    stream.close()


def send(stream: IO[bytes], message: bytes) -> None:
    """Write a message, its length first."""
    stream.write(len(message).to_bytes(8, "little") + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Return the next message, b"" at the end."""
    size = stream.read(8)
    message = stream.read(int.from_bytes(size, "little")) if len(size) == 8 else b""
    return message if len(message) == int.from_bytes(size, "little") else b""


# -- a fleet of Spark's executors ------------------------------------------------------------------

_ANSWERS = pa.schema({"place": pa.int64(), "answer": pa.binary()})


class SparkFleet:
    """Does tasks in a Spark session: classic or Connect.

    Every executor needs this version of sparseq, and the lake's folder under the same path.
    A task that Spark tries again, or does twice, gives the same; Spark hands on one of them.

    Args:
        session: The session; it stays open.
    """

    def __init__(self, session: Any) -> None:
        self._session, self._ours = session, False

    @classmethod
    def at(cls, address: str) -> SparkFleet:
        """Return a fleet of the executors at an address; its session ends with it.

        Args:
            address: Of Spark Connect, sc://HOST; or of a classic master, spark://HOST:7077 or
                local[*].

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
            raise StoreError("Spark has not answered each task once")
        return map(answer_of, found["answer"].to_pylist())

    def close(self) -> None:
        """See `Fleet`."""
        if self._ours:
            self._session.stop()
