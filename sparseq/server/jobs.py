"""Jobs: tasks that a server runs step by step; each step takes its turn like a question.

Only the store and the job's own files hold a job's progress. So a job that was stopped, was killed
or has failed begins again and continues where it was: its requests have their own names, so none
runs twice. The messages of a job are for the curator.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any

from sparseq.base.errors import ParameterError, SparseqError
from sparseq.server.job import LOG, Job, JobState
from sparseq.server.kept_jobs import KeptJobs, SeriesJob
from sparseq.server.quota_desk import Desk
from sparseq.store.store import Store

PAUSE, AGAIN = 1.0, 60.0
"""Seconds until a job looks again for work, and until a failed one begins again."""


class Jobs:
    """Runs jobs until the server stops.

    Args:
        jobs: The jobs.
        operate: Runs a call on the store in its turn.
        stopping: Set when the server stops.
        desk: Records each answer.
        kept: Series that were begun on a page, and the state of each job's last run; by default in
            memory only.

    Attributes:
        states: The state of each job.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        operate: Callable[[Callable[[Store], Any]], Awaitable[Any]],
        stopping: asyncio.Event,
        desk: Desk,
        kept: KeptJobs | None = None,
    ) -> None:
        self._operate, self._stopping, self._desk = operate, stopping, desk
        self._kept = kept or KeptJobs(None)
        self._first: list[Job] = [*jobs, *self._kept.series()]
        self._tasks: list[asyncio.Task[None]] = []
        self.states = [self._kept.state(job) for job in self._first]

    async def run(self) -> None:
        """Run all jobs, and those that begin later; a step in progress is finished."""
        self._tasks += map(asyncio.create_task, map(self._run, self._first, self.states))
        await self._stopping.wait()
        await asyncio.gather(*self._tasks)

    async def begin(self, series: SeriesJob) -> None:
        """Run a series from now on, also after a restart of the server.

        Raises:
            ParameterError: A job has this name.
        """
        if series.name in [state.name for state in self.states]:
            raise ParameterError(f"there is a job {series.name!r}", "take another name")
        await asyncio.to_thread(self._kept.add, series)
        state = JobState(series.name, series.kind)
        self.states.append(state)
        self._tasks.append(asyncio.create_task(self._run(series, state)))

    async def end(self, name: str) -> bool:
        """Run no further step of such a series, and delete it; tell whether it existed."""
        found = await asyncio.to_thread(self._kept.end, name)
        for state in [state for state in self.states if found and state.name == name]:
            state.ended = True
            self.states.remove(state)
        return found

    async def _run(self, job: Job, state: JobState) -> None:
        while not self._over(state):
            try:
                if await self._run_steps(job, state):
                    return
            except Exception as error:
                if self._over(state):
                    return
                known = isinstance(error, SparseqError)
                if not known:
                    LOG.exception("the job %s failed", job.name)
                state.tell("failed", str(error) if known else type(error).__name__)
                failed = partial(self._desk.tell, "job failed", "", source=f"job {job.name}")
                await asyncio.to_thread(failed)
                await asyncio.to_thread(self._kept.ran, state)
            await self._pause(AGAIN)

    async def _run_steps(self, job: Job, state: JobState) -> bool:
        """Run steps until there are none left, or the server stops."""
        steps, before = list[Generator[str, None, None]](), state.steps

        def step(store: Store) -> str | None:
            before = store.released
            try:
                if not steps:
                    steps.append(job.steps(store))
                return next(steps[0], None)
            finally:
                self._note(job, store, store.released - before)

        try:
            while not self._over(state):
                said = await self._operate(step)
                if said is None:
                    state.tell("done", "")
                    return True
                state.steps += bool(said)
                state.tell("working" if said else "waiting", said)
                if not said:
                    if state.steps > before:
                        await asyncio.to_thread(self._kept.ran, state)
                        before = state.steps
                    await self._pause(PAUSE)
            return True
        finally:
            if state.steps > before:
                await asyncio.to_thread(self._kept.ran, state)
            for begun in steps:
                begun.close()

    def _over(self, state: JobState) -> bool:
        return state.ended or self._stopping.is_set()

    def _note(self, job: Job, store: Store, releases: int) -> None:
        for one in store.releases(releases) if releases else ():
            facts = {"release": one.id, "query": one.query}
            self._desk.note("asked", "", source=f"job {job.name}", **facts)
        self._desk.write()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
