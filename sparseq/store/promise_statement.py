"""The promise of a store in one object: its unit, levels, right guesses and exclusions.

All texts that state a promise are made from this object: `create`, `budget`, `card`, a receipt, the
pages of a server, and the table in docs/guarantee.md.

The right guess is the highest probability of a correct guess whether one unit is in the data, for
an attacker who knows all other data and every answer; without answers it is one half. Under mu-GDP
it is Phi(mu / 2) (`sparseq.accounting.gdp.best_guess`). Under kappa-zCDP alone the Kullback-Leibler
divergence of the two laws is kappa at most, so their total variation is at most sqrt(kappa / 2)
(Pinsker) and at most sqrt(1 - exp(-kappa)) (Bretagnolle and Huber 1979), and the right guess is (1
+ that) / 2. If keys are found, keys_delta is added to the total variation.

Several units of one person are not one unit. The level of n units together is n² kappa (group
privacy of zCDP, Bun and Steinke 2016, Proposition 27; of GDP, n mu: Dong, Roth and Su 2022, Theorem
4). If each value is about one window their level is n kappa, as the losses of different values add
up (docs/theorems/windows.md).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from sparseq.accounting import gdp
from sparseq.accounting.budget import KAPPA_RANGE, Budget
from sparseq.base.defaults import DELTA
from sparseq.base.texts import count_of
from sparseq.pictures.bounded_numbers import number, upper

_YEAR = {"day": 365, "week": 52, "month": 12, "quarter": 4, "year": 1}
_PLAIN = 2


@dataclass(frozen=True)
class Level:
    """A privacy level in the standard parameters of differential privacy.

    Attributes:
        kappa: The kappa of zCDP.
        mu: The mu of GDP; None: it is not claimed.
        epsilon: The epsilon at `DELTA`; None: it is infinite.
        right_guess: See the module.

    Example:
        >>> level = Level.of(0.5, gaussian=True, keys_delta=0.0)
        >>> level.mu, round(level.right_guess, 3)
        (1.0, 0.691)
        >>> round(Level.of(0.5, gaussian=False, keys_delta=0.0).right_guess, 3)
        0.75
    """

    kappa: float
    mu: float | None
    epsilon: float | None
    right_guess: float

    @classmethod
    def of(cls, kappa: float, gaussian: bool, keys_delta: float) -> Level:
        """Return the level for a kappa."""
        mu = math.sqrt(2 * kappa) if gaussian else None
        apart = min(math.sqrt(kappa / 2), math.sqrt(-math.expm1(-kappa)))
        right = (1 + apart) / 2 if mu is None else gdp.best_guess(mu)
        epsilon = None
        if KAPPA_RANGE[0] <= kappa <= KAPPA_RANGE[1]:
            budget = Budget(kappa, 1.0, gaussian, keys_delta)
            mu = budget.mu
            epsilon = budget.epsilon(DELTA)
        finite = epsilon is not None and math.isfinite(epsilon)
        return cls(kappa, mu, epsilon if finite else None, min(right + keys_delta / 2, 1.0))


@dataclass(frozen=True)
class PromiseStatement:
    """The promise of a store.

    Attributes:
        unit: The unit of an account: "one customer_id", "one customer_id in one month".
        person: The column that identifies the user of a row.
        window: "month", …; "": a person has one account.
        claim: The level of one unit in standard terms.
        level: The level of one unit for all answers together.
        units: A number of units that one person or household may have.
        together: The level of that number of units, for any questions.
        apart: The same where each value is about one window; None: units are not windows.
        lifetime: The level of all windows of a person; None: there is no promise for them.
        keys_delta: The probability with which found keys may fail.
        population: The population of the store, and the level of all its stores; None: it has none.
        exclusions: The exclusions from the promise.

    Example:
        >>> import pyarrow as pa, sparseq
        >>> con = sparseq.create(None, pa.table({"who": [7, 8]}), user="who")
        >>> said = con.promise.statement
        >>> said.unit, round(said.level.right_guess, 3), round(said.together.right_guess, 3)
        ('one who', 0.691, 0.841)
    """

    unit: str
    person: str
    window: str
    claim: str
    level: Level
    units: int
    together: Level
    apart: Level | None
    lifetime: Level | None
    keys_delta: float
    population: tuple[str, Level] | None
    exclusions: tuple[str, ...]

    @classmethod
    def of(
        cls,
        budget: Budget,
        person: str,
        window: str = "",
        lifetime: float | None = None,
        population: tuple[str, float] | None = None,
        seeded: bool = False,
        losses: int = 0,
    ) -> PromiseStatement:
        """Return the promise of a store.

        Args:
            budget: The budget of one unit.
            person: The column that identifies the user of a row.
            window: See the class.
            lifetime: kappa of all windows of a person; None: there is no such cap.
            population: The place and the kappa of its population.
            seeded: The noise comes from a seed.
            losses: The number of times that charges were lost.
        """
        gaussian, delta = budget.gaussian, budget.keys_delta

        def level(kappa: float) -> Level:
            return Level.of(kappa, gaussian, delta)

        n = _YEAR[window] if window else _PLAIN
        told = None if population is None else (population[0], level(population[1]))
        return cls(
            f"one {person} in one {window}" if window else f"one {person}",
            person,
            window,
            budget.promise,
            level(budget.kappa),
            n,
            level(n * n * budget.kappa),
            level(n * budget.kappa) if window else None,
            None if lifetime is None else level(lifetime),
            delta,
            told,
            tuple(_exclusions(seeded, losses)),
        )

    @property
    def neighbours(self) -> str:
        """The definition of neighbours."""
        return f"data sets are neighbours if one is the other without all rows of {self.unit}"

    @property
    def guess(self) -> str:
        """The right guess about one unit, in words."""
        return (
            f"somebody who knows all other data and every answer guesses right whether "
            f"{'the rows of ' if self.window else ''}{self.unit} "
            f"{'are' if self.window else 'is'} in the data at most "
            f"{_share(self.level.right_guess)} of the time; a coin is right 50 %"
        )

    @property
    def several(self) -> str:
        """The level of several units, in words: they are not one unit."""
        if self.lifetime is not None:
            return (
                f"all {self.window}s of one {self.person} together: "
                f"{number(self.lifetime.kappa)}-zCDP, and a guess is right at most "
                f"{_share(self.lifetime.right_guess)} of the time; a {self.window} of somebody who "
                "has little left of that is promised less (docs/theorems/windows.md)"
            )
        if self.apart is None:
            return (
                f"{self.units} of them together (a household): kappa "
                f"{number(self.together.kappa)}, and a guess is right at most "
                f"{_share(self.together.right_guess)} of the time"
            )
        if self.units == 1:
            return f"n {self.window}s of one {self.person} together: n² times kappa in any case"
        return (
            f"{self.units} {self.window}s of one {self.person} together: kappa "
            f"{number(self.apart.kappa)} where each value is about one {self.window} (a guess is "
            f"right at most {_share(self.apart.right_guess)} of the time), and "
            f"{number(self.together.kappa)} in any case"
        )

    def accounts(self, number_of: int, new: bool = False) -> str:
        """Return a number of accounts in words; accounts of windows are not people.

        Example:
            >>> PromiseStatement.of(Budget(0.5, 48.0), "who", "month").accounts(24)
            '24 accounts, each of one who in one month'
        """
        new_ones = "new " * new
        if self.window:
            return f"{count_of(number_of, f'{new_ones}account')}, each of {self.unit}"
        return count_of(number_of, f"{new_ones}person", f"{new_ones}people")

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The statement as labelled lines."""
        found = [("unit", f"{self.unit}: {self.neighbours}")]
        found += [("guess", self.guess), ("several", self.several)]
        if self.keys_delta:
            found.append(("found keys", f"all of it but for probability {self.keys_delta:g}"))
        if self.population is not None:
            place, level = self.population
            found.append(
                ("population", f"all stores of {place} together: kappa {number(level.kappa)}")
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as plain data, with its sentences."""
        told = asdict(self) | {"exclusions": list(self.exclusions)}
        if self.population is not None:
            told["population"] = {"place": self.population[0], **asdict(self.population[1])}
        words = {"neighbours": self.neighbours, "guess": self.guess, "several": self.several}
        return told | words


def _exclusions(seeded: bool, losses: int) -> list[str]:
    found = [
        "how long an answer takes",
        "who can read the store's file, or the machine's memory",
        "other releases about the same people, whose levels add up",
    ]
    if seeded:
        found.append("anything: the noise comes from a seed, and can be computed")
    if losses:
        found.append("answers whose charges were lost, each with what it may have told")
    return found


def _share(right: float) -> str:
    return f"{upper(100 * right, 3)} %"


def level_so_far(kappa: float) -> dict[str, Any]:
    """Return the meaning of a level computed after the fact, and its limits.

    Args:
        kappa: The charges of one account so far, as a level of zCDP.
    """
    return {"kappa": kappa, "says": SO_FAR}


SO_FAR = (
    "the charges so far, looked at after the answers; no bound on how often a guess is right: "
    "an analyst who stops because an answer told much is right more often than a store would "
    "allow whose whole budget was that. Only the promise, which was fixed before, bounds guesses"
)


def guarantee_table() -> str:
    """Return the table of docs/guarantee.md: the promise of each kind of store, at kappa 0.5."""
    usual = Budget(0.5, 48.0)
    watched = Budget(0.5, 48.0, gaussian=False)
    with_keys = Budget(0.5, 48.0, keys_delta=1e-7)
    kinds = {
        "by default": PromiseStatement.of(usual, "user"),
        "`--window month`": PromiseStatement.of(usual, "user", "month"),
        "`--window month=5`": PromiseStatement.of(usual, "user", "month", lifetime=5.0),
        "keys are found (keys_delta 1e-7)": PromiseStatement.of(with_keys, "user"),
        "with a watch": PromiseStatement.of(watched, "user"),
        "of a population of kappa 1": PromiseStatement.of(
            usual, "user", population=("the population", 1.0)
        ),
    }
    lines = [
        "| store of kappa 0.5 | privacy unit | promise | right guess | several units |",
        "|---|---|---|---|---|",
    ]
    for name, said in kinds.items():
        mu = "" if said.level.mu is None else f", {number(said.level.mu)}-GDP"
        several = said.several
        if said.population is not None:
            place, level = said.population
            several += f"; all stores of {place}: {number(level.kappa)}-zCDP"
        cells = (name, said.unit, f"{said.claim}{mu}", _share(said.level.right_guess), several)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
