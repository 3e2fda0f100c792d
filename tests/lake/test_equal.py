"""A lake gives the answers of a store on one machine, to the last bit, and charges the same."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from lake.twins import opened, worlds

from sparseq.lake.fleets import Fleet, Here, Processes

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")


def compared(folder: Path, seed: int, worlds_: int, questions: int, fleet: Fleet) -> int:
    """Ask twins of some worlds; return how many questions were answered."""
    answered = 0
    for k, (here, asked) in enumerate(islice(worlds(seed), worlds_)):
        (folder / str(k)).mkdir()
        with opened(folder / str(k), here, 1 + k % 4, fleet) as twins:
            for sql in islice(asked, questions):
                twins.ask(sql)
            twins.same_accounts()
            answered += twins.answered
    return answered


@pytest.mark.parametrize("worlds_", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_generated_questions_have_the_same_answers_and_charges(
    tmp_path: Path, worlds_: int
) -> None:
    assert compared(tmp_path, 1, worlds_, 7, Here()) > 2 * worlds_


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 6))
def test_a_thousand_have(tmp_path: Path, seed: int) -> None:
    """Ten times as many, by processes."""
    fleet = Processes(2)
    assert compared(tmp_path, seed, 10, 25, fleet) > 80
    fleet.close()
