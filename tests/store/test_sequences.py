"""Random lives of a store end in no exception but ours: see `checks.sequences`."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sampled import one_in

pytest.importorskip("httpx")
pytest.importorskip("polars")

from checks.sequences import life
from sparseq.store.store import Store
from sparseq.stream.step import Stream


@pytest.mark.parametrize("seed", one_in(4, [1005, 1000, 1, 2]))
def test_a_life_ends_in_no_exception_but_ours(seed: int) -> None:
    tally = life.Tally()
    assert life.found_in(seed, tally) is None
    assert tally.steps == 0 or 0 < tally.refused < tally.steps


@pytest.mark.deep
def test_lives_of_half_an_hour_end_in_no_exception_but_ours() -> None:
    tally, end, seed = life.Tally(), time.monotonic() + 1800, 10_000
    while time.monotonic() < end:
        found = life.found_in(seed, tally)
        assert found is None, str(life.shortest(found, 60.0)) if found else ""
        seed += 1
    assert len(tally.ways) == 5


def test_steps_are_made_before_the_first_is_done_and_the_same_for_the_same_seed() -> None:
    steps = list(map(str, life.life(3).steps))
    assert steps == list(map(str, life.life(3).steps))
    assert steps != list(map(str, life.life(4).steps))
    assert len(steps) == life.LENGTH


@pytest.mark.deep
def test_a_planted_exception_is_found_and_its_life_made_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raises(*_: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Store, "release", raises)
    found = next(filter(None, (life.found_in(seed, only=("python",)) for seed in range(1, 40))))
    assert found.kind == "ZeroDivisionError in "
    least = life.shortest(found, 10.0)
    assert len(least.life.steps) <= 2
    assert f"seed {found.life.seed}" in str(least)


def test_a_charge_without_a_release_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Stream.known

    def charges(self: Stream, *given: Any, **more: Any) -> Any:
        self.accounts.spent[0] += 1
        return known(self, *given, **more)

    monkeypatch.setattr(Stream, "known", charges)
    found = filter(None, (life.found_in(seed, only=("python",)) for seed in range(2, 10)))
    assert next(found).kind in ("charged without a release", "an account fell")
