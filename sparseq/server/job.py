"""One job of a server, and its state."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from sparseq.store.store import Store

LOG = logging.getLogger("sparseq.server")


class Job(Protocol):
    """A job to run."""

    @property
    def name(self) -> str:
        """The name of the job."""

    @property
    def kind(self) -> str:
        """The kind of work."""

    def steps(self, store: Store) -> Generator[str, None, None]:
        """Run one step after the other, and yield a message about each; "": no work now."""


@dataclass
class JobState:
    """The state of a job.

    Attributes:
        name, kind: The job.
        state: working, waiting, done or failed.
        said: The last message, or the reason of the failure.
        at: The time of the state, in UTC.
        steps: The number of steps since the server began.
        ran: The time of the last step or failure, in UTC.
        failed: True if the last run failed.
        ended: True if the job was ended.
    """

    name: str
    kind: str
    state: str = "waiting"
    said: str = ""
    at: str = ""
    steps: int = 0
    ran: str = ""
    failed: bool = False
    ended: bool = False

    def tell(self, state: str, said: str) -> None:
        """Set the state; `said`: the message of a step, "" if nothing was done."""
        self.state, self.said = state, said or self.said
        self.at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        if said:
            self.ran, self.failed = self.at, state == "failed"
