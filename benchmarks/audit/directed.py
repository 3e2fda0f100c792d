"""Questions written for each planted leak, asked of small stores: seconds, for every change."""

from __future__ import annotations

import contextlib

from benchmarks.audit.comparison import Finding, Terms, compare
from benchmarks.audit.neighbours import WITHOUT, Quartet
from benchmarks.audit.noise import NoiseTest
from benchmarks.audit.planted import POOR, SMALL, Leak
from benchmarks.audit.seams import Watching
from benchmarks.audit.search import asked, engine_plans, name_counts


def directed(leak: Leak, planted: bool = True) -> list[Finding]:
    """Return what a leak's own questions find, with the leak planted or without.

    Example:
        >>> from benchmarks.audit.planted import LEAKS
        >>> [f.rule for f in directed(LEAKS[2])], directed(LEAKS[2], planted=False)
        (['undercharged'], [])
    """
    world, found, noise = POOR if leak.poor else SMALL, [], NoiseTest()
    terms = Terms(world.options["kappa"], world.options["norm_budget"])
    with contextlib.ExitStack() as stack:
        if planted:
            stack.enter_context(leak.plant())
        watching = stack.enter_context(Watching().entered())
        quartet = stack.enter_context(Quartet(world))
        for question in leak.questions:
            if "{c}" in question:
                found += name_counts(watching, quartet, "x", question)
                continue
            seen = asked(watching, quartet, question)
            found += compare(seen, world.who, terms)
            found += engine_plans(quartet, seen)
            found += noise.take(seen[WITHOUT])
    return found
