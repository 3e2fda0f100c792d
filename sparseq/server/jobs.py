"""Jobs: what a server does by itself, step by step, each step in its turn like a question.

How far a job is, only the store and the job's own files know. So one that was stopped, killed or
has failed begins anew and goes on where it was: what it asks has names of its own, and is asked
once.
What a job says is for the curator.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from sparseq.base.errors import SparseqError
from sparseq.server.quota_desk import Desk
from sparseq.store.store import Store

LOG = logging.getLogger("sparseq.server")
PAUSE, AGAIN = 1.0, 60.0
"""Seconds until a job looks again for something to do, and until one that failed begins anew."""


class Job(Protocol):
    """What is to be done.

    Attributes:
        name, kind: As the file of jobs says.
    """

    name: str
    kind: str

    def steps(self, store: Store) -> Generator[str, None, None]:
        """Do one step after the other, and say what was done; "": there is nothing to do now."""


@dataclass
class JobState:
    """How a job is.

    Attributes:
        name, kind: Which.
        state: working, waiting, done or failed.
        said: What was done last, or why it failed.
        at: Since when, in UTC.
        steps: How many were done since the server began.
    """

    name: str
    kind: str
    state: str = "waiting"
    said: str = ""
    at: str = ""
    steps: int = 0

    def tell(self, state: str, said: str) -> None:
        """Say how it is now."""
        self.state, self.said = state, said or self.said
        self.at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


class Jobs:
    """Runs jobs until the server stops.

    Args:
        jobs: Which.
        operate: Returns what a call on the store does, in its turn.
        stopping: Set when the server stops.
        desk: Is told of each answer.

    Attributes:
        states: How they are.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        operate: Callable[[Callable[[Store], Any]], Awaitable[Any]],
        stopping: asyncio.Event,
        desk: Desk,
    ) -> None:
        self._jobs, self._operate, self._stopping, self._desk = jobs, operate, stopping, desk
        self.states = [JobState(job.name, job.kind) for job in jobs]

    async def run(self) -> None:
        """Run all of them; a step that has begun is ended."""
        await asyncio.gather(*map(self._run, self._jobs, self.states))

    async def _run(self, job: Job, state: JobState) -> None:
        while not self._stopping.is_set():
            try:
                if await self._worked(job, state):
                    return
            except Exception as error:
                if self._stopping.is_set():
                    return
                known = isinstance(error, SparseqError)
                if not known:
                    LOG.exception("the job %s failed", job.name)
                state.tell("failed", str(error) if known else type(error).__name__)
                failed = partial(self._desk.tell, "job failed", "", source=f"job {job.name}")
                await asyncio.to_thread(failed)
            await self._pause(AGAIN)

    async def _worked(self, job: Job, state: JobState) -> bool:
        """Do steps until there are none left, or the server stops."""
        steps: list[Generator[str, None, None]] = []

        def step(store: Store) -> str | None:
            if not steps:
                steps.append(job.steps(store))
            before = store.released
            try:
                return next(steps[0], None)
            finally:
                self._note(job, store, store.released - before)

        try:
            while not self._stopping.is_set():
                said = await self._operate(step)
                if said is None:
                    state.tell("done", "")
                    return True
                state.steps += bool(said)
                state.tell("working" if said else "waiting", said)
                if not said:
                    await self._pause(PAUSE)
            return True
        finally:
            for begun in steps:
                begun.close()

    def _note(self, job: Job, store: Store, releases: int) -> None:
        for one in store.releases(releases) if releases else ():
            facts = {"release": one.id, "query": one.query}
            self._desk.note("asked", "", source=f"job {job.name}", **facts)
        self._desk.write()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
