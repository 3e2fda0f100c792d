"""A lake's streams, held against Algorithm 2 in fractions, and its lives, against one machine's.

The references are those of test_reference (people in or out) and test_weighted_reference (weights
and pilots); they know no store. Lives are of generated questions, files and erasures.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lake.twins import Twins, opened, worlds
from stream import test_reference, test_weighted_reference
from stream.test_reference import examples

import sparseq
from checks.audit.neighbours import WITH
from checks.stores import made_store
from sparseq.lake.fleets import Fleet, Here, Processes
from sparseq.lake.lake_store import open_lake
from sparseq.store import curator
from sparseq.store.store import Store
from sparseq.stream.batches import Request

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")


def create(path: Any, rows: Any, **told: Any) -> Store:
    """A lake of three buckets, at the path or beside it."""
    return made_store(f"lake://{path}", rows, buckets=3, **told)


class InLake(test_reference.Running):
    """A lake beside Algorithm 2."""

    create = staticmethod(create)


class WeightedInLake(test_weighted_reference.Running):
    """A lake beside Algorithm 2 with weights and pilots."""

    create = staticmethod(create)

    def contribute(self, one: Any) -> None:
        with pytest.raises(sparseq.StoreError, match="does not accept contributions"):
            super().contribute(one)


@examples(2)
def test_a_stream_in_a_lake_is_that_of_algorithm_2(
    tmp_path_factory: pytest.TempPathFactory, stream: test_reference.Stream, on_disk: bool
) -> None:
    test_reference.follow(tmp_path_factory, stream, True, InLake)


@pytest.mark.deep
@examples(60)
def test_many_streams_in_a_lake_are_those_of_algorithm_2(
    tmp_path_factory: pytest.TempPathFactory, stream: test_reference.Stream, on_disk: bool
) -> None:
    test_reference.follow(tmp_path_factory, stream, True, InLake)


@pytest.mark.parametrize("seed", [2])
def test_a_weighted_stream_in_a_lake_is_that_of_the_reference(seed: int, tmp_path: Path) -> None:
    test_weighted_reference.follow(seed, tmp_path / "lake", 4, begin=WeightedInLake)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3_000, 3_040))
def test_many_weighted_streams_in_a_lake_are_those_of_the_reference(
    seed: int, tmp_path: Path
) -> None:
    test_weighted_reference.follow(seed, tmp_path / "lake", begin=WeightedInLake)


class Life:
    """What happens to both stores of a world, at random."""

    def __init__(
        self, draw: random.Random, twins: Twins, asked: Iterator[str], rows: pa.Table
    ) -> None:
        self._draw, self._twins, self._asked, self._rows = draw, twins, asked, rows
        self._earlier: list[str] = []

    def step(self) -> None:
        """Do one thing to both, and compare."""
        do = self._draw.choices(
            [self._ask, self._again, self._many, self._files, self._erase], [12, 1, 1, 2, 1]
        )[0]
        do()
        self._twins.same_accounts()

    def _ask(self) -> None:
        self._earlier.append(next(self._asked))
        self._twins.ask(self._earlier[-1])

    def _again(self) -> None:
        for sql in self._earlier[-1:]:
            self._twins.ask(sql)

    def _many(self) -> None:
        """A group, which shares its scans."""
        texts = list(islice(self._asked, 3))
        found = []
        for store in (self._twins.one, self._twins.lake):
            asked = []
            for sql in texts:
                try:
                    asked.append(Request(store.lower(sql), fresh=True))
                except (sparseq.QueryRefused, sparseq.ParameterError):
                    continue
            outcomes = store.ask_many(asked)
            found.append([o.answer.to_bytes() if o.answer else str(o.refused) for o in outcomes])
        assert found[0] == found[1], texts
        self._twins.asked += len(texts)
        self._twins.answered += sum(isinstance(one, bytes) for one in found[0])

    def _files(self) -> None:
        """Rows as others have them, about people who are known, new or erased."""
        some = self._rows.take(self._draw.choices(range(self._rows.num_rows), k=4))
        who = pa.array([self._draw.choice([*range(12), 901]) for _ in range(4)], pa.int64())
        at = some.schema.get_field_index("who")
        some = some.set_column(at, some.schema.field(at), who.cast(some.schema.field(at).type))
        for store in (self._twins.one, self._twins.lake):
            store.ingest(some, "t", again=True)

    def _erase(self) -> None:
        one = self._twins.one
        names = one.stream.ledger.identifiers(one.backend.people().inside().tolist())
        known = sorted(str(name) for name in names.values() if name is not None)
        if known:
            who = self._draw.choice(known)
            done = [curator.forget(store, who) for store in (one, self._twins.lake)]
            assert done[0] == done[1]


def lives(folder: Path, seed: int, count: int, steps: int, fleet: Fleet) -> tuple[int, int]:
    """Have both live; return how many questions were asked, and how many answered."""
    draw, asked_, answered = random.Random(seed), 0, 0
    for k, (here, asked) in enumerate(islice(worlds(seed), count)):
        (folder / str(k)).mkdir()
        with opened(folder / str(k), here, 1 + k % 4, fleet) as twins:
            life = Life(draw, twins, asked, here.table(WITH, "t"))
            for step in range(steps):
                life.step()
                if step == steps // 2:
                    twins.lake.close()
                    twins.lake = Store(open_lake(folder / str(k) / "lake", fleet))
            twins.lake.close()
            asked_, answered = asked_ + twins.asked, answered + twins.answered
    return asked_, answered


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_a_life_in_a_lake_is_that_of_one_machine(tmp_path: Path, count: int) -> None:
    assert lives(tmp_path, 11, count, 8, Here())[1] > count


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(20, 25))
def test_many_lives_in_a_lake_are_those_of_one_machine(seed: int, tmp_path: Path) -> None:
    """By processes: 200 questions or more each, with files and erasures."""
    fleet = Processes(2)
    asked, answered = lives(tmp_path, seed, 10, 25, fleet)
    fleet.close()
    print(f"{asked} asked, {answered} answered")
    assert asked > 180
    assert answered > 60
