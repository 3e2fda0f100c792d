"""Faults of populations and upgrades."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from checks.simulation.faults.registry import Place, do_nothing, plant
from sparseq.store import store_draws
from sparseq.store._duckdb import upgrade


@plant("population")
def draw_added_twice() -> list[Place]:
    """A draw that is done is not noted as done, so it is added again."""
    added = store_draws._add

    def again(stream: Any, backend: Any, drawn: Any, *given: Any) -> Any:
        done = added(stream, backend, drawn, *given)
        store_draws.note(stream.ledger, replace(done, begun=drawn.begun))
        return done

    return [(store_draws, "_add", again)]


@plant("upgrade")
def upgraded_step_by_step() -> list[Place]:
    """Each step of an upgrade is a separate transaction."""

    def apart(step: Any) -> Any:
        def apply(connection: Any) -> None:
            step.apply(connection)
            connection.execute("COMMIT")
            connection.execute("BEGIN")

        return replace(step, apply=apply)

    return [(upgrade, "STEPS", tuple(map(apart, upgrade.STEPS)))]


@plant("upgrade")
def upgrade_not_flushed_when_read() -> list[Place]:
    """The version of a store is read from a killed process's log."""
    return [(upgrade, "flush_log", do_nothing)]
