"""Whole lives: made from a seed, lived, and made shorter where they end badly."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sparseq
from checks.audit.neighbours import World, world
from checks.sequences.host import Broken, Host
from checks.sequences.steps import Action, Steps

LENGTH = 30


@dataclass
class Tally:
    """What was done."""

    steps: int = 0
    refused: int = 0
    ways: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Life:
    """A store and all that happens to it."""

    seed: int
    world: World
    more: dict[str, Any]
    steps: tuple[Action, ...]


@dataclass(frozen=True)
class Finding:
    """A life that ended badly with its last step: `kind` is the same for the same fault."""

    life: Life
    kind: str
    detail: str

    def __str__(self) -> str:
        steps = "\n".join(f"  {i}. {step}" for i, step in enumerate(self.life.steps, 1))
        options = dict(self.life.world.options) | self.life.more
        return f"{self.kind}\nseed {self.life.seed}: {options}\n{steps}\n{self.detail.strip()}"


def life(seed: int, only: tuple[str, ...] = ()) -> Life:
    """Return the life of a seed."""
    rng = random.Random(seed)
    here = world(rng, rng.choice(("rich", "rich", "poor")))
    more: dict[str, Any] = {}
    if rng.random() < 0.3:
        more |= {"window": rng.choice(("day", "month", "year"))}
        if rng.random() < 0.5:
            more |= {"lifetime_kappa": 5.0 * here.options["kappa"]}
    elif rng.random() < 0.3:
        more |= {"reserves": {"watch": 0.1, "forecast": 0.1}}
    if "window" not in more and rng.random() < 0.5:
        more |= {"keys_delta": 1e-6}
    made = Steps(rng, here, only)
    return Life(seed, here, more, tuple(made.next() for _ in range(LENGTH)))


def lived(one: Life, tally: Tally | None = None) -> Finding | None:
    """Live it; return how it ended badly, if it did."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            host = Host(one.world, Path(folder), one.more)
        except sparseq.SparseqError:  # options that don't go together
            return None
        done = 0
        try:
            for step in one.steps:
                done += 1
                host.do(step)
                if tally is not None:
                    tally.steps += 1
                    tally.refused += host.refused
                    tally.ways[step.way] += 1
        except Broken as error:
            until = Life(one.seed, one.world, one.more, one.steps[:done])
            return Finding(until, error.kind, str(error))
        finally:
            host.end()
    return None


def found_in(seed: int, tally: Tally | None = None, only: tuple[str, ...] = ()) -> Finding | None:
    """Live the life of a seed; return how it ended badly, if it did."""
    return lived(life(seed, only), tally)


def shortest(finding: Finding, seconds: float) -> Finding:
    """Return the same fault after fewer steps: halves, then single ones are left out."""
    end, size = time.monotonic() + seconds, max(len(finding.life.steps) // 2, 1)
    while size and time.monotonic() < end:
        steps, less = finding.life.steps, None
        for start in range(0, len(steps) - 1, size):
            if time.monotonic() > end:
                break
            kept = (*steps[:start], *steps[min(start + size, len(steps) - 1) :])
            again = lived(Life(finding.life.seed, finding.life.world, finding.life.more, kept))
            if again is not None and again.kind == finding.kind:
                less = again
                break
        if less is not None:
            finding, size = less, min(size, max(len(less.life.steps) // 2, 1))
        else:
            size //= 2
    return finding
