"""Faults, planted one at a time: the faults that the judge finds show what it can find.

Each is a launcher, `python -m checks.judge.planted NAME serve STORE …`, which breaks sparseq in
its own process and then serves. The judge does not know of it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from checks.judge.check import Finding, judged
from checks.judge.workload import Life


@dataclass(frozen=True)
class Fault:
    """A planted fault.

    Attributes:
        name: Name of the launcher.
        rules: Rules that it breaks, any of them.
        lake: True if it is in how two drivers share a lake; else the store is a file.
        events: Events of the store: see `Life`.
    """

    name: str
    rules: tuple[str, ...]
    lake: bool = False
    events: tuple[str, ...] = ("nothing",)


FAULTS = (
    Fault(
        "answer before the commit",
        ("lost answer", "two values", "two answers"),
        events=("kill", "kill"),
    ),
    Fault("a lost charge", ("account", "not covered")),
    Fault("half a charge", ("not covered",)),
    Fault("a noise drawn twice", ("noise twice",), events=("kill", "kill")),
    Fault("half the noise", ("noise",), events=("nothing",) * 3),
    Fault("a stale repeat", ("stale",), events=("nothing",) * 3),
    Fault("a stale count", ("stale",)),
    Fault(
        "an old copy that opens",
        ("lost answer", "two values", "two answers"),
        events=("copy", "put_back"),
    ),
    Fault("a quota that forgets", ("quota",), events=("kill", "kill")),
    Fault(
        "a lake without its fence",
        (
            "lost answer",
            "two values",
            "two answers",
            "not covered",
            "promise",
            "account",
            "stale",
            "lost store",
        ),
        lake=True,
        events=("nothing", "nothing", "nothing"),
    ),
)


PATIENCE = 60.0
"""Seconds without an answer, after which a life with a fault ends."""


def found_in(fault: Fault, folder: Path, seed: int = 1) -> list[Finding]:
    """Return the judge's findings for a fault in one life, by the rules that it breaks."""
    program = (sys.executable, "-m", "checks.judge.planted", fault.name)
    life = Life(
        folder, seed, lake=fault.lake, program=program, events=fault.events, patience=PATIENCE
    )
    return [one for one in judged(*life.live()) if one.rule in fault.rules]
