"""Random streams of queries, held against Algorithm 2 in fractions: spends equal to the last unit.

Each stream makes a store of random rows, then asks random queries, repeats request ids, ingests and
reopens. Noise is switched off at the sampler's door, so that sums of the active are compared too.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from algorithm2 import Algorithm2, Vector, on_lattice
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sparseq
import sparseq.stream.step
from checks.stores import made_store

DAY = dt.date(2024, 3, 1)
KINDS = ["a", "b", "c", "zz"]
KEYS = ("a", "b", "never")
AMOUNT, NUMBER = (-20.0, 50.0), (-3.0, 40.0)  # declared bounds; rows don't always keep to them


class Row(NamedTuple):
    who: int | None
    day: dt.date
    kind: str | None
    amount: float | None
    n: int | None


def cut(x: Any, bounds: tuple[float, float]) -> Any:
    """A number as it is stored; `n` is whole, and so are its bounds."""
    return x if x is None or math.isnan(x) else type(x)(min(max(x, bounds[0]), bounds[1]))


Condition = tuple[str, Callable[[Row], bool | None]]


def largest_nan(x: float) -> tuple[bool, float]:
    """Sort as DuckDB does: NaN above everything."""
    return (math.isnan(x), 0.0 if math.isnan(x) else x)


ANOTHER_DAY: Condition = ("day <> DATE '2024-03-02'", lambda r: r.day != DAY + dt.timedelta(1))
"""No row of that day passes: it is no group."""
NULL_TOO: Condition = (
    "kind IS NULL OR kind LIKE 'z%'",
    lambda r: r.kind is None or r.kind.startswith("z"),
)
ONE_LETTER: Condition = ("kind LIKE '_' AND kind < 'c'", lambda r: r.kind in ("a", "b"))
CONDITIONS: list[Condition] = [
    ("amount > 3.25", lambda r: r.amount is not None and largest_nan(r.amount) > (False, 3.25)),
    ("n BETWEEN 0 AND 5", lambda r: r.n is not None and 0 <= r.n <= 5),
    ONE_LETTER,
    NULL_TOO,
    ANOTHER_DAY,
    ("who <> 2", lambda r: r.who != 2),
]


class Aggregate(NamedTuple):
    """`value` of a row (None: nothing), or, distinct, whether the row has one."""

    sql: str
    value: Callable[[Row], float | None]
    scale: float
    sums: bool = False
    distinct: bool = False

    @property
    def rank(self) -> int:
        """A caller's scale is that of sums, or else of counts of rows, or else of users."""
        return 0 if self.sums else 2 if self.distinct else 1


def clamped(x: float | None) -> float:
    """LEAST(GREATEST(x, 0), 10) of DuckDB, which leaves NULL out and puts NaN above everything."""
    return min(max(0.0 if x is None else x, 0.0, key=largest_nan), 10.0, key=largest_nan)


def aggregates() -> list[Aggregate]:
    found = [
        Aggregate("count(*)", lambda r: 1, 1),
        Aggregate("count(amount)", lambda r: None if r.amount is None else 1, 1),
        Aggregate("count(DISTINCT who)", lambda r: 1, 1, distinct=True),
        Aggregate("sum(amount)", lambda r: r.amount, 50, sums=True),
        Aggregate("sum(n)", lambda r: r.n, 40, sums=True),
        Aggregate("sum(least(greatest(amount, 0), 10))", lambda r: clamped(r.amount), 10, True),
        Aggregate(
            "sum(amount * 0.375)",
            lambda r: None if r.amount is None else r.amount * 0.375,
            18.75,
            sums=True,
        ),
    ]
    for sql, holds in CONDITIONS[:4]:
        found += [
            Aggregate(f"countif({sql})", lambda r, f=holds: 1 if f(r) else None, 1),
            Aggregate(
                f"count(DISTINCT CASE WHEN {sql} THEN who END)",
                lambda r, f=holds: 1 if f(r) else None,
                1,
                distinct=True,
            ),
            Aggregate(
                f"sum(amount) FILTER (WHERE {sql})",
                lambda r, f=holds: r.amount if f(r) else None,
                50,
                sums=True,
            ),
        ]
    return found


AGGREGATES = aggregates()
COUNTS_OF_ROWS = ("count(*)", "count(DISTINCT who)")
"""Counts that are of no condition: a group without any of them is always listed."""


@dataclass(frozen=True)
class Asked:
    """One query: its SQL, and what it is in Python."""

    aggregates: tuple[Aggregate, ...]
    conditions: tuple[Condition, ...]
    by_kind: tuple[str, ...] | None  # () is the declared keys
    by_day: int  # days, from the first; 0: not grouped
    options: tuple[tuple[str, float], ...]
    request_id: str | None

    @property
    def sql(self) -> str:
        keys = [k for k, by in (("kind", self.by_kind is not None), ("day", self.by_day)) if by]
        where = [f"({sql})" for sql, _ in self.conditions]
        if self.by_kind:
            where.append(f"kind IN ({', '.join(map(repr, self.by_kind))})")
        if self.by_day:
            last = DAY + dt.timedelta(self.by_day - 1)
            where.append(f"day BETWEEN DATE '{DAY}' AND DATE '{last}'")
        shown = [*keys, *(f"{a.sql} AS x{i}" for i, a in enumerate(self.aggregates))]
        sql = f"SELECT {', '.join(shown)} FROM t"
        sql += f" WHERE {' AND '.join(where)}" if where else ""
        return sql + (f" GROUP BY {', '.join(keys)}" if keys else "")

    @property
    def groups(self) -> int:
        return self._kinds() * max(len(self._days()), 1)

    def _days(self) -> list[int]:
        """The days that are groups, from the first."""
        left_out = ANOTHER_DAY in self.conditions
        return [day for day in range(self.by_day) if not (left_out and day == 1)]

    def _kinds(self) -> int:
        return 1 if self.by_kind is None else len(self._domain())

    def _domain(self) -> tuple[str | None, ...]:
        """The kinds that are groups: those listed, or declared, that conditions allow."""
        kinds = self.by_kind or (*KEYS, None)
        on_kind = [holds for sql, holds in self.conditions if sql in (ONE_LETTER[0], NULL_TOO[0])]
        rows = [Row(0, DAY, kind, 0.0, 0) for kind in kinds]
        return tuple(row.kind for row in rows if all(holds(row) for holds in on_kind))

    def place(self, row: Row) -> int | None:
        """The group that a row is in, None for none."""
        if not all(holds(row) for _, holds in self.conditions):
            return None
        kind = day = 0
        if self.by_kind is not None:
            domain = self._domain()
            if row.kind not in domain:
                return None
            kind = domain.index(row.kind)
        if self.by_day:
            if (row.day - DAY).days not in self._days():
                return None
            day = self._days().index((row.day - DAY).days)
        return kind * max(len(self._days()), 1) + day

    def listed(self, values: list[list[float]], widths: list[float]) -> list[int]:
        """The groups in the answer: a NULL whose rows are counted needs a count above its noise.

        `values` has a list per aggregate, by group; `widths` are half an interval of each.
        """
        counts = [i for i, a in enumerate(self.aggregates) if not a.sums]
        tells = any(self.aggregates[i].sql in COUNTS_OF_ROWS for i in counts)
        null = self.by_kind == () and None in self._domain()
        first = self.groups - max(len(self._days()), 1) if null and tells else self.groups
        return [
            k
            for k in range(self.groups)
            if k < first or any(values[i][k] - widths[i] > 0 for i in counts)
        ]

    def vectors(
        self, a: Aggregate, rows: list[tuple[int, Row]], granularity: float
    ) -> dict[int, Vector]:
        """q(X_i) of each user, on the lattice; `rows`: with their users."""
        found: dict[int, dict[int, int]] = {}
        for user, row in rows:
            place, value = self.place(row), a.value(row)
            if place is None:
                continue
            x = on_lattice(value, granularity)
            if x:
                vector = found.setdefault(user, {})
                vector[place] = x if a.distinct else vector.get(place, 0) + x
        return found


# What is drawn ------------------------------------------------------------------------------------

ODD = [0.0, -0.0, 1.0, 2.5, math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324]


def some_rows(draw: random.Random, size: int) -> list[Row]:
    """Rows of a few users, one of whom has half of them."""
    return [
        Row(
            draw.choice([0, 1, 2, 3, 5, 8, 13, None, *[21] * 8]),
            DAY + dt.timedelta(draw.randrange(5)),
            draw.choice([*KINDS, None]),
            draw.choice([None, draw.choice(ODD), *[draw.uniform(-20, 50) for _ in range(6)]]),
            draw.choice([None, draw.randint(-3, 40), draw.randint(-1, 2)]),
        )
        for _ in range(size)
    ]


rows_of = st.builds(
    some_rows, st.integers(0, 2**32 - 1).map(random.Random), st.sampled_from([30, 12, 1, 0])
)


@st.composite
def questions(draw: st.DrawFn, floor: float) -> Asked:
    """`floor` is the sigma at which one row costs a whole budget."""
    knob = draw(st.sampled_from(["", "", "", "sigma", "accuracy", "scale"]))
    factor = draw(st.sampled_from([1.25, 2.0, 3.0, 7.7, 100 / 3, 1e4]))
    amount = {"sigma": factor * floor, "accuracy": 4 * factor * floor, "scale": factor}
    return Asked(
        tuple(draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True))),
        tuple(draw(st.lists(st.sampled_from(CONDITIONS), max_size=2, unique=True))),
        draw(st.sampled_from([None, None, (), ("b", "a"), ("zz", "none", "c")])),
        draw(st.sampled_from([0, 0, 1, 3])),
        ((knob, amount[knob]),) if knob else (),
        draw(st.sampled_from([None, None, "one", "two"])),
    )


@dataclass(frozen=True)
class Stream:
    """A store and what happens to it: a query, rows that arrive, or None, which is reopening."""

    kappa: float
    norm_budget: float
    halt: bool
    budgets: dict[int, float | None] | None
    rows: list[Row]
    steps: list[Asked | list[Row] | None]


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    kappa = draw(st.sampled_from([0.5, 0.1, 2.0, 1 / 3]))
    norm_budget = draw(st.sampled_from([20.0, 5.0, 2.75, 100.1]))
    own = st.sampled_from([None, 0.0, 1.0, norm_budget / 3, norm_budget])
    question = questions((2 * kappa) ** -0.5)
    return Stream(
        kappa,
        norm_budget,
        draw(st.booleans()),
        draw(st.none() | st.fixed_dictionaries(dict.fromkeys((0, 1, 2, 3, 5, 8, 13, 21), own))),
        draw(rows_of),
        draw(st.lists(st.one_of(*[question] * 5, rows_of, st.none()), min_size=3, max_size=9)),
    )


# What is checked ----------------------------------------------------------------------------------


def arrow(rows: list[Row], budgets: dict[int, float | None] | None) -> pa.Table:
    schema = pa.schema(
        [
            ("who", pa.int64()),
            ("day", pa.date32()),
            ("kind", pa.string()),
            ("amount", pa.float64()),
            ("n", pa.int32()),
        ]
    )
    table = pa.Table.from_pylist([r._asdict() for r in rows], schema)
    if budgets is None:
        return table
    own = pa.array([None if r.who is None else budgets[r.who] for r in rows], pa.float64())
    return table.append_column("own", own)


class Running:
    """A store beside its reference."""

    more: Mapping[str, Any] = {}  # of what is declared
    create, connect = staticmethod(made_store), staticmethod(sparseq.connect)

    def __init__(self, stream: Stream, path: Path | None) -> None:
        self.stream = stream
        self.rows: list[tuple[int, Row]] = []
        self.reference = self._reference()
        self.answers: dict[str, tuple[str, bytes]] = {}
        self.con = self.create(
            path,
            arrow(stream.rows, stream.budgets),
            table="t",
            user="who",
            kappa=stream.kappa,
            norm_budget=stream.norm_budget,
            in_or_out=True,
            halt=stream.halt,
            budget_column="own" if stream.budgets else "",
            keys={"kind": KEYS},
            bounds={"amount": AMOUNT, "n": NUMBER},
            **self.more,
        )
        self._arrived(stream.rows)

    def _reference(self) -> Algorithm2:
        return Algorithm2(self.stream.kappa, self.stream.norm_budget, self.stream.halt)

    def user_of(self, row: Row) -> int | None:
        """Whose account a row is for."""
        return row.who

    def known_as(self, identifier: Any) -> int:
        """The user whom the store calls so."""
        return int(identifier)

    def _arrived(self, rows: list[Row]) -> int:
        some = [
            (user, row._replace(amount=cut(row.amount, AMOUNT), n=cut(row.n, NUMBER)))
            for row in rows
            if (user := self.user_of(row)) is not None
        ]
        self.rows = self.rows + some
        for user, row in some:
            self.reference.add_user(user, (self.stream.budgets or {}).get(row.who or 0))
        return len(some)

    def ingest(self, rows: list[Row]) -> None:
        assert self.con.ingest(arrow(rows, self.stream.budgets), again=True) == self._arrived(rows)

    def reopen(self) -> None:
        path = self.con.path
        if path is not None:
            self.con.close()
            self.con = self.connect(path)

    def ask(self, asked: Asked) -> None:
        before = len(self.con.releases())
        known = self.answers.get(asked.request_id or "")
        if known is not None and known[0] != asked.sql:
            with pytest.raises(sparseq.QueryRefused, match="request id"):
                self._sql(asked)
            return
        spent = self.con.stream.accounts.spent.tolist()
        try:
            answer = self._sql(asked)
        except sparseq.QueryRefused:  # a wish beyond the budget: nothing has changed
            assert {"sigma", "accuracy", "precision"} & set(dict(asked.options))
            assert self.con.stream.accounts.spent.tolist() == spent
            assert len(self.con.releases()) == before
            return
        if known is not None:
            assert answer.to_bytes() == known[1]
            assert len(self.con.releases()) == before
            return
        if asked.request_id:
            self.answers[asked.request_id] = (asked.sql, answer.to_bytes())
        self._compare(asked, answer)

    def _sql(self, asked: Asked) -> sparseq.Answer:
        return self.con.sql(
            asked.sql, request_id=asked.request_id, fresh=True, **dict(asked.options)
        )

    def _compare(self, asked: Asked, answer: sparseq.Answer) -> None:
        noise = list(zip(answer.facts.sigma, answer.facts.granularity, strict=True))
        for a, (sigma, granularity) in zip(asked.aggregates, noise, strict=True):
            self._check_noise(asked, a, sigma, granularity)
        vectors = [
            asked.vectors(a, self.rows, g)
            for a, (_, g) in zip(asked.aggregates, noise, strict=True)
        ]
        if any(a.distinct for a in asked.aggregates):  # 1, and not 1 a row, on whatever lattice
            assert all(
                set(v.values()) <= {on_lattice(1, g)}
                for a, (_, g), users in zip(asked.aggregates, noise, vectors, strict=True)
                for v in users.values()
                if a.distinct
            )
        sums = self.reference.step(vectors, noise)
        table = answer.arrow()
        expected = [
            [float(total.get(k, 0) * Fraction(granularity)) for k in range(asked.groups)]
            for (_, granularity), total in zip(noise, sums, strict=True)
        ]
        widths = [
            table[f"x{i}_error"][0].as_py() if table.num_rows else 4 * sigma
            for i, (sigma, _) in enumerate(noise)
        ]
        listed = asked.listed(expected, widths)
        assert table.num_rows == len(listed)
        for i, values in enumerate(expected):
            assert table[f"x{i}"].to_pylist() == [values[k] for k in listed]

    def _check_noise(self, asked: Asked, a: Aggregate, sigma: float, granularity: float) -> None:
        options = dict(asked.options)
        assert math.frexp(granularity)[0] == 0.5
        assert granularity <= sigma / 2
        if "sigma" in options:
            assert sigma == options["sigma"]
        elif "accuracy" not in options:
            said = "scale" in options and a.rank == min(x.rank for x in asked.aggregates)
            scale = Fraction(options["scale"] if said else a.scale)
            ratio = Fraction(sigma) ** 2 * 2 * Fraction(self.stream.kappa) / scale**2
            assert 1 <= ratio / Fraction(self.stream.norm_budget) < 1 + Fraction(1, 2**50)

    def check_spends(self) -> None:
        names = self.con.stream.ledger.identifiers(self.con.backend.people().inside().tolist())
        paid = self.con.stream.accounts.spent
        spent = {self.known_as(name): int(paid[user]) for user, name in names.items()}
        assert spent == self.reference.spent
        assert all(spent[u] <= self.reference.budgets[u] for u in spent)


def silent(sigma: float, size: int, entropy: Any = None) -> NDArray[np.int64]:
    return np.zeros(size, np.int64)


def examples(number: int) -> Any:
    """Try so many streams, one of four in a file."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    some = settings(derandomize=True, max_examples=number, suppress_health_check=slow)
    given_some = given(stream=streams(), on_disk=st.sampled_from([False, False, False, True]))
    return lambda test: some(given_some(test))


@examples(10)
def test_spends_and_sums_of_any_stream_are_those_of_algorithm_2(
    tmp_path_factory: pytest.TempPathFactory, stream: Stream, on_disk: bool
) -> None:
    follow(tmp_path_factory, stream, on_disk)


@pytest.mark.deep
@examples(600)
def test_spends_and_sums_of_many_streams_are_those_of_algorithm_2(
    tmp_path_factory: pytest.TempPathFactory, stream: Stream, on_disk: bool
) -> None:
    follow(tmp_path_factory, stream, on_disk)


def follow(
    tmp_path_factory: pytest.TempPathFactory,
    stream: Stream,
    on_disk: bool,
    begin: Callable[[Stream, Path | None], Running] = Running,
) -> None:
    """Run a stream in a store and by Algorithm 2."""
    path = tmp_path_factory.mktemp("stream") / "s.sparseq" if on_disk else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparseq.stream.step, "rounded_gaussian", silent)
        running = begin(stream, path)
        try:
            for step in stream.steps:
                if step is None:
                    running.reopen()
                elif isinstance(step, Asked):
                    running.ask(step)
                else:
                    running.ingest(step)
                running.check_spends()
            running.reopen()
            running.check_spends()
            spent, budgets = running.reference.spent, running.reference.budgets
            event(f"somebody spent: {any(spent.values())}")
            event(f"somebody is at the limit: {any(0 < budgets[u] == s for u, s in spent.items())}")
        finally:
            running.con.close()
