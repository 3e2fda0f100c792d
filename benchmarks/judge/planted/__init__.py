"""Faults, planted one at a time: what the judge can find is known only from what it has found.

Each is a launcher, `python -m benchmarks.judge.planted NAME serve STORE …`, which breaks sparseq in
its own process and then serves. The judge is not told.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.judge.check import Finding, judged
from benchmarks.judge.workload import Life


@dataclass(frozen=True)
class Fault:
    """A planted fault.

    Attributes:
        name: Of the launcher.
        rules: What it is found as, any of them.
        lake: It is in how two drivers share a lake; else the store is a file.
        events: What happens to the store: see `Life`.
    """

    name: str
    rules: tuple[str, ...]
    lake: bool = False
    events: tuple[str, ...] = ("nothing",)


FAULTS = (
    Fault("answer before the commit", ("lost answer", "two values", "two answers"),
          events=("kill", "kill")),
    Fault("a lost charge", ("account", "not covered")),
    Fault("half a charge", ("not covered",)),
    Fault("a noise drawn twice", ("noise twice",), events=("kill", "kill")),
    Fault("half the noise", ("noise",), events=("nothing",) * 3),
    Fault("a stale repeat", ("stale",), events=("nothing",) * 3),
    Fault("a stale count", ("stale",)),
    Fault("an old copy that opens", ("lost answer", "two values", "two answers"),
          events=("copy", "put_back")),
    Fault("a quota that forgets", ("quota",), events=("kill", "kill")),
    Fault("a lake without its fence", ("lost answer", "two values", "two answers", "not covered",
                                       "promise", "account", "stale", "lost store"), lake=True,
          events=("nothing", "nothing", "nothing")),
)  # fmt: skip


PATIENCE = 60.0
"""Seconds without an answer, after which a life with a fault ends."""


def found_in(fault: Fault, folder: Path, seed: int = 1) -> list[Finding]:
    """Return what the judge finds of a fault in one life, by the rules that it is found as."""
    program = (sys.executable, "-m", "benchmarks.judge.planted", fault.name)
    life = Life(
        folder, seed, lake=fault.lake, program=program, events=fault.events, patience=PATIENCE
    )
    return [one for one in judged(*life.live()) if one.rule in fault.rules]
