"""All engines keep every promise of the protocol, and one that breaks a promise is found."""

from __future__ import annotations

import itertools
import math
import shutil
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conformance.dict_engine import DictEngine
from conformance.engines import CHECKS, PEOPLE, Maker, Row
from sampled import one_in

import sparseq
from sparseq.engine.contributions import Contributions
from sparseq.engine.protocol import Engine
from sparseq.engine.reduction import Reduction
from sparseq.lake.fleets import Fleet, Here
from sparseq.lake.lake_engine import LakeEngine
from sparseq.question.catalog import Table
from sparseq.question.plan import Options, Plan

SCHEMA = pa.schema({"who": pa.int64(), "day": pa.int64(), "kind": pa.string(), "x": pa.float64()})
EVERYBODY: list[Row] = [{"who": k, "day": 0, "kind": "a", "x": 0.0} for k in range(PEOPLE)]


class InDuckDB:
    """The engine of a store in memory, in which everybody has an account."""

    def engine(self, rows: list[Row]) -> Engine:
        self._store = sparseq.create(
            None,
            {"visits": pa.Table.from_pylist(EVERYBODY, schema=SCHEMA)},
            user="who",
            keys={"kind": ["a", "b"], "day": [0, 1, 2, 3]},
            seed=1,
        )
        self._store.backend.database.execute("DELETE FROM by_user.visits")
        self.add(rows)
        return self._store.stream.engine

    def add(self, rows: list[Row]) -> None:
        self._store.ingest(pa.Table.from_pylist(rows, schema=SCHEMA))

    def table(self) -> Table:
        return self._store.catalog.only_private()

    def plan(self, sql: str, options: Options) -> Plan:
        return self._store.explain(self._store.lower(sql), options)


class InLists(InDuckDB):
    """An engine over lists of dicts; plans come from a store."""

    def __init__(self, kind: type[DictEngine] = DictEngine) -> None:
        self._kind = kind

    def engine(self, rows: list[Row]) -> Engine:
        super().engine([])
        self._rows: list[Row] = []
        self.add(rows)
        return self._kind({"visits": self._rows})

    def add(self, rows: list[Row]) -> None:
        if rows:
            self._rows += [row | {"_user": row["who"]} for row in rows]


class InBuckets(InDuckDB):
    """The engine of a lake of three buckets: person k is in bucket k % 3, at place k // 3."""

    def __init__(self, fleet: Fleet | None = None) -> None:
        self._fleet = fleet or Here()
        self._folder = Path(tempfile.mkdtemp())
        self._paths: list[str] = []

    def __del__(self) -> None:
        shutil.rmtree(self._folder)

    def engine(self, rows: list[Row]) -> Engine:
        self._rows: list[Row] = []
        super().engine(rows)
        return LakeEngine(self._fleet, lambda: self._paths)

    def add(self, rows: list[Row]) -> None:
        self._rows += rows
        self._paths = [str(self._written(bucket)) for bucket in range(3)]

    def _written(self, bucket: int) -> Path:
        path = self._folder / f"{bucket}-{uuid.uuid4().hex}"
        mine = [
            [row for row in some if row["who"] % 3 == bucket] for some in (EVERYBODY, self._rows)
        ]
        tables = [pa.Table.from_pylist(some, schema=SCHEMA) for some in mine]
        with sparseq.create(path, {"visits": tables[0]}, user="who", seed=1) as store:
            store.backend.database.execute("DELETE FROM by_user.visits")
            store.ingest(tables[1])
        return path


@pytest.mark.parametrize(
    ("maker", "check"),
    [
        *itertools.product([InDuckDB], CHECKS),
        *one_in(3, itertools.product([InLists, InBuckets], CHECKS)),
    ],
    ids=lambda given: given.__name__,
)
def test_an_engine_keeps_its_promise(
    maker: Callable[[], Maker], check: Callable[[Maker], None]
) -> None:
    check(maker())


class OneUnitMore(DictEngine):
    """A norm is a unit more than it is."""

    def _reduced(self, *given: Any) -> Reduction:
        found = super()._reduced(*given)
        return replace(found, norms=found.norms + (found.norms > 0))


class Deaf(DictEngine):
    """Leaves nobody out."""

    def contributions(self, plan: Plan, users: int) -> Contributions:
        found = super().contributions(plan, users)
        return Contributions(found.measures, lambda only: [m.totals * 0 for m in found.measures])


class Nosy(DictEngine):
    """What the others have decides what one contributes."""

    def _reduced(self, *given: Any) -> Reduction:
        found = super()._reduced(*given)
        return replace(
            found,
            norms=np.minimum(found.norms, int(np.median(found.norms)) if len(found.norms) else 0),
        )


class Generous(DictEngine):
    """A weighted cell is rounded, and not cut off."""

    @staticmethod
    def _weigh(steps: int, weight: Fraction) -> int:
        return round(steps * weight)


class Downwards(DictEngine):
    """A weighted cell is cut off towards minus infinity: what is negative grows."""

    @staticmethod
    def _weigh(steps: int, weight: Fraction) -> int:
        return math.floor(steps * weight)


class Boastful(DictEngine):
    """Says that it can do what it can't."""

    def lacks(self, plan: Plan) -> str:
        return ""


class Forgetful(DictEngine):
    """Keeps what it has read."""

    def __init__(self, tables: dict[str, list[Row]]) -> None:
        super().__init__({name: list(rows) for name, rows in tables.items()})


@pytest.mark.parametrize(
    ("kind", "by", "how"),
    [
        (OneUnitMore, "norms_and_sums_are_those_of_the_rows", AssertionError),
        (Deaf, "without_somebody_is_as_if_they_had_no_rows", AssertionError),
        (Nosy, "norms_and_sums_are_those_of_the_rows", AssertionError),
        (Generous, "sums_under_weights_are_cut_towards_zero_cell_by_cell", AssertionError),
        (Downwards, "sums_under_weights_are_cut_towards_zero_cell_by_cell", AssertionError),
        (Boastful, "what_can_not_be_evaluated_is_said", ValueError),
        (Forgetful, "rows_that_come_count_from_then_on", AssertionError),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_an_engine_that_breaks_a_promise_is_found(
    kind: type[DictEngine], by: str, how: type[Exception]
) -> None:
    (check,) = [check for check in CHECKS if check.__name__ == by]
    with pytest.raises(how):
        check(InLists(kind))
