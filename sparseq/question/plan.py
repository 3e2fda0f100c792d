"""Queries and plans: public facts, and the SQL that computes contributions.

A `Query` describes a question; `calibrate` chooses its noise and lattice and returns a `Plan`. Both
are public: they come from the text, the schema and the curator's declarations, never from a row.
One `Measure` is one family of coordinates (a count, a sum, a histogram) over all groups.
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
from sparseq.language.column_id import ColumnId
from sparseq.language.expression_tree import Term

MAX_COORDINATES = 1_000_000
_MAX_COUNT_SIGMA = 2.0**43
LATTICE_BITS = 20
"""A sum of scale C has a lattice of at least 2**20 steps per C."""
DENSE_BITS = 44
"""A dense vector has the finest lattice for which the sampler can draw noise."""
DENSE_NORM_STEPS = 2**16
"""Lattice steps per unit of a dense vector's norm, so that squared norms fit into int64."""


class Kind(enum.StrEnum):
    """Ways to compute a user's value in a group from the user's rows."""

    ROWS = "rows"
    """The number of rows."""
    USERS = "users"
    """1 if the user has a row, otherwise 0."""
    SUM = "sum"
    """The sum of the rows' values."""
    DENSE = "dense"
    """A vector computed outside SQL, such as a gradient: given as norms and a weighted sum."""


@dataclass(frozen=True)
class Cell:
    """An SQL expression over one row, and its term, if it was generated from one."""

    sql: str
    term: Term | None = None

    @classmethod
    def of(cls, term: Term) -> Cell:
        """Return a term as a cell."""
        return cls(term.sql, term)


@dataclass(frozen=True)
class Domain:
    """The public values of one group key, and the SQL for a row's place among them.

    Attributes:
        name: The key's name in the answer.
        values: Public values, in the order of the answer; the value None is for rows with NULL.
        position: SQL for a row's place in `values`; NULL or out of range: no value fits the row.
        key: The key's expression, if it is available as a term.
        rest: The last of `values` is for every row without another value.
        keys: For a domain of several keys, whose values are tuples: their names, and their places
            among the keys of the question. Empty: the domain has one key.
    """

    name: str
    values: tuple[Any, ...]
    position: Cell
    key: Term | None = None
    rest: bool = False
    keys: tuple[tuple[str, int], ...] = ()


def values_of_keys(domains: Sequence[Domain]) -> list[tuple[int, str, Sequence[Any]]]:
    """Return for each key of a question the place of its domain, its name, and its values there.

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
        kind: The way in which a user's rows add up.
        value: Number (SUM) or truth value (others) of a row; None: every row counts.
        label: The measure in the words of the query.
        integral: Every value is an integer.
        scale: C, the public norm to which sigma is proportional; None: no public fact bounds it.
        edges, bin: Bin edges, and SQL for a row's bin; empty: no bins.
        step: The lattice step, a power of two, if the caller computes the contributions.
        bounds: Public (low, high) of a row's value, if known.
        role: In a weighted answer, the statistic that is the only use of the measure; "": none.
        cut: The stored column whose values it adds up, cut to found bounds.
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
    cut: ColumnId | None = None

    @property
    def bins(self) -> int:
        """Number of coordinates per group."""
        return max(len(self.edges) - 1, 1)


@dataclass(frozen=True)
class Cap:
    """The users who are excluded from one join before it runs (see `sparseq.sql.from_clause`).

    Attributes:
        name: The table of their indices, `temp."name"`, which the join's SQL uses. The name is
            derived from `sql`: caps of the same name are equal.
        sql: Selects their indices; it may use the tables of earlier caps.
        most: The most row combinations that a user may have.
    """

    name: str
    sql: str
    most: int = 0


@dataclass(frozen=True)
class Relation:
    """FROM and WHERE, on stored tables.

    Attributes:
        sql: FROM …
        where: The condition; "": none.
        user: SQL for a row's user index.
        caps: The users excluded from joins; `sql` uses their tables (`sparseq.sql.from_clause`).
        stored: The name of a stored table, if the rows are its rows that meet the conditions and
            have a match in each public table that is joined to it; otherwise "".
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
"""Options that determine the size of the noise: at most one may be given."""
PROVED, ALIKE = "proved", "alike"
RESTS_ON = (PROVED, ALIKE)
"""The two possible bases of an interval: declared maxima, or a stated assumption."""
PLAIN, ERROR, INTERVAL = "plain", "error", "interval"
SHOWN_COLUMNS = (PLAIN, ERROR, INTERVAL)
"""The columns of an answer: the SELECT's own; also x_error; also x_low and x_high."""


@dataclass(frozen=True)
class Option:
    """One option of a question, as described in every interface: flags of `sparseq sql`,
    arguments in Python, fields over HTTP and of the agents' tool, `SET sparseq.…`, docs/options.md.

    Attributes:
        about: Its description.
        letter: The placeholder for its value in a usage line; "" for a flag.
        choices: The permitted texts; empty: a number.
        share: A number that may be written in percent.
        usual: The default in words.
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


WISHES = "sigma", "accuracy", "precision"
"""Options that say how large the noise of an answer may be."""


@dataclass(frozen=True)
class Options:
    """The options of a caller for one query; None: the store's default. The only table of options.

    sigma is C · sigma_0 / sqrt(price) in weighted answers, where C is `scale`; `accuracy` holds for
    all values together, at `confidence`, which is the confidence of every interval: 1 - beta.
    """

    sigma: float | None = _option("Standard deviation of the noise.", "FLOAT")
    accuracy: float | None = _option(
        "Half-width that intervals should have; the price follows.", "A"
    )
    precision: float | None = _option(
        "The same as a part of the answer, such as 2%.", "P%", share=True
    )
    price: float | None = _option(
        "Most that a person pays for one number, besides pilots (5/16 at price 1): 4 about "
        "halves the noise of 1.",
        "P",
        usual="1",
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

    @property
    def wish(self) -> str | None:
        """The option that limits the noise or the interval; None: none of these is given."""
        return next((name for name in KNOBS[:3] if getattr(self, name) is not None), None)

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
            value = getattr(self, name)  # a NumPy number, a fraction: answers store Python's
            if value is not None and not isinstance(value, int):
                object.__setattr__(self, name, float(value))

    def over(self, other: Options) -> Options:
        """Return these options, with values of `other` for options that are not given."""
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
        """The options of preceding questions: only the price applies to them."""
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
    """A statistic with its own measures, in a weighted answer.

    Attributes:
        role: Its kind: an average (of a number and a total), quantiles (of one measure), a variance
            (of a number, a total and squares), or a pair of values (of a number, both totals, the
            squares of each, and products).
        places: The places of its measures.
        levels: The levels of quantiles, ascending.
    """

    role: str
    places: tuple[int, ...]
    levels: tuple[float, ...] = ()

    @property
    def said(self) -> str:
        """The role of its measures, which depends on the statistic and its levels."""
        return " ".join([self.role, *map(repr, self.levels)])


AVERAGE, QUANTILE, VARIANCE, PAIR = "average", "quantile", "variance", "pair"
COVARIANCE, CORRELATION, SLOPE = "covariance", "correlation", "slope"
"""Statistics of a pair of values, in addition to averages and variances."""


@dataclass(frozen=True)
class ValueSearch:
    """The questions that find the bounds of a value that is not a stored column.

    Attributes:
        key: A digest of the value and its rows: two searches with one key are the same.
        name: The value in the words of the query.
        cells: The question how many users have their largest |value| in which cell.
        beyond: Makes the question how many users have a value beyond bounds.
    """

    key: str
    name: str = field(compare=False)
    cells: Query = field(compare=False)
    beyond: Callable[[float, float], Query] = field(compare=False)


Sought = ColumnId | ValueSearch
"""A column or another value whose bounds are searched for."""


@dataclass(frozen=True)
class BoundGaps:
    """The values of a question whose bounds are unknown.

    Attributes:
        values: The columns, and the searches for other values.
        binned: Bins or groups depend on their bounds.
    """

    values: tuple[Sought, ...] = ()
    binned: bool = False

    def __or__(self, other: BoundGaps) -> BoundGaps:
        values = (*dict.fromkeys([*self.values, *other.values]),)
        return BoundGaps(values, self.binned or other.binned)


@dataclass(frozen=True)
class BoundSearch:
    """The values of a question without bounds, and the question after they have some.

    Attributes:
        columns: The columns, and the searches for other values.
        after: The question with arbitrary bounds: its cost is that of the later question.
        binned: Bins or groups depend on the bounds, so that a scale does not replace them.
    """

    columns: tuple[Sought, ...]
    after: Query
    binned: bool = False

    @property
    def price(self) -> float:
        """The most that finding their bounds costs a user; a user without a cut pays half."""
        return 2.0 * len(self.columns)


@dataclass(frozen=True)
class FirstAnswer:
    """The released answer to a question that another question needs: one public row.

    Attributes:
        values: The values of its columns.
        said: The same in words.
    """

    values: tuple[Any, ...]
    said: str


@dataclass(frozen=True)
class Query:
    """A lowered query, before its noise is fixed.

    Attributes:
        text: The caller's text.
        relation, domains, measures: The rows, the groups and the numbers to compute.
        outputs: The computation of the answer from noised measures (`sparseq.released.outputs`).
        notes: Notes about the lowering for the caller.
        options: Options written in the query text.
        comparisons: 0: sums are released with Gaussian noise. Otherwise the most comparisons in the
            run of a sparse vector with noise of Laplace scale sigma.
        apart: No value adds up rows of two windows of one user, if windows have accounts.
        span: The first and the last window that its rows may be in; None: any window, or no
            windows exist.
        left_out: Notes about rows in no listed group: public, and shown with the answer.
        statistics: The statistics of measures that have a role.
        single: A user has at most one row.
        unbounded: The summed columns without bounds, which must be found first; None: all have
            bounds.
        first: Questions that must be asked before it, one after the other; placeholders stand
            for unknown numbers (`sparseq.sql.first_questions`).
        derived: A cache of facts derived from this object, by name.
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
        """True if it uses public tables only: its answer is exact and free, and is no release."""
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
        sigma, scale: The standard deviation of the noise, and C.
        granularity: The lattice step.
        norm_step: The unit of norms, whose squares are priced: the lattice step or a coarser one.
        price: Ledger units per norm_step².
    """

    sigma: float
    granularity: float
    scale: float
    norm_step: float
    price: Price

    @property
    def lattice_sigma(self) -> float:
        """Sigma in lattice steps; exact, because granularity is a power of two."""
        return self.sigma / self.granularity


@dataclass(frozen=True)
class Plan:
    """A query with its noise: the public facts of an answer before its release."""

    query: Query
    noise: tuple[Noise, ...]
    beta: float

    @property
    def bounds(self) -> tuple[float, ...]:
        """± of each measure, for all coordinates together, at confidence 1 - beta."""
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
    """Choose the noise of every measure: sigma_t = C · sigma_0 (Corollary 4.7), or as requested.

    A caller's sigma or accuracy applies to every measure. A caller's scale applies to the sums,
    without sums to the counts of rows, and without these to all measures.

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
    """Refuse options that only a weighted answer can have."""
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
    """Return the refusal of a sum without a public scale."""
    return QueryRefused(
        f"{m.label} has no public scale to measure the noise against",
        "clamp it, as in SUM(LEAST(GREATEST(x, 0), 100)); or ask the curator to declare "
        "bounds (create --bounds x=0..100); or give --scale 100, in SQL: "
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 100) …",
    )


def _sigma_within(accuracy: float, m: Measure, budget: Budget, d: int, beta: float) -> float:
    """Return the sigma for which ± is `accuracy`, half a lattice step included."""
    sigma = float(sigma_for_accuracy(accuracy, d, beta))
    step = min(_granularity(m, sigma, budget), accuracy)
    return float(sigma_for_accuracy(accuracy, d, beta, lattice_step=step))


def _granularity(m: Measure, sigma: float, budget: Budget) -> float:
    """Return the lattice step: a power of two, from public facts only.

    It is at most sigma/2, so that rounding the noise adds less than 1.1 % to it, and 1 for integers
    if that is small enough. A sum has 2**20 steps per effective scale sigma/sigma_0, so that the
    rounding of its values is far below the noise, and a value of 2**31 steps, the greatest allowed,
    costs more than any budget.
    """
    effective = math.frexp(sigma / budget.sigma_0)[1] - 1 - LATTICE_BITS
    finest = math.frexp(sigma)[1] - 2
    if m.step is not None:
        return m.step
    if m.kind is Kind.DENSE:
        return math.ldexp(1.0, math.frexp(sigma)[1] - DENSE_BITS)
    if m.kind is not Kind.SUM:  # 1 is a whole number of steps
        if sigma > _MAX_COUNT_SIGMA:
            raise ParameterError(
                f"sigma is {sigma:.4g}; for a count it must be at most {_MAX_COUNT_SIGMA:.4g}"
            )
        return math.ldexp(1.0, min(finest, 0))
    coarsest = math.frexp(sigma)[1] - 40  # the sampler's sigma is at most 2**44 steps
    exponent = max(min(max(effective, 0) if m.integral else effective, finest), coarsest)
    return math.ldexp(1.0, exponent)
