"""Fleets that run tasks: bytes in, and bytes back in the order of the tasks."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Protocol

from sparseq.base.errors import StoreError
from sparseq.lake.task import answer_of, done

_TRIES = 3


class Fleet(Protocol):
    """Runs tasks (`sparseq.lake.task.done`), each at least once, on any machine."""

    def run(self, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the result of each task, in their order.

        Raises:
            StoreError: A task failed repeatedly.
        """

    def close(self) -> None:
        """Release its resources."""


class Here:
    """Runs tasks in this process, one after the other."""

    def run(self, tasks: Sequence[bytes]) -> Iterator[bytes]:
        """See `Fleet`."""
        return map(done, tasks)

    def close(self) -> None:
        """See `Fleet`."""


class Processes:
    """Runs tasks in processes of this machine, which are started on demand.

    Each is `python -m sparseq.lake.worker`, and communicates over its standard input and output. A
    process that dies is replaced, and its task is repeated: tasks are functions of their input.

    Args:
        count: The number of processes; by default one per core.
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
        """Start another process first: a thread that waits for one must never wait in vain."""
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
        raise StoreError(
            f"a task ended its process {_TRIES} times", ("check whether there is enough memory")
        )

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
    """A process that runs one task at a time."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sparseq.lake.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def done(self, task: bytes) -> bytes:
        """Return the result of a task, after a byte with its status.

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
                with contextlib.suppress(OSError):  # unsent data do not matter
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
