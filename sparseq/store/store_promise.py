"""The promise of a store to everybody in it, and the progress of its stream: public facts.

They are read from its settings and its ledger. Nothing else of the store is opened for them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseq.accounting import gdp
from sparseq.accounting.budget import Budget
from sparseq.accounting.charge import UNITS_PER_NORM, budget_units
from sparseq.base.defaults import DELTA
from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.ledger.protocol import Release, drawn_facts, watch_begun
from sparseq.ledger.purposes import Pot, Pots, Purpose
from sparseq.pictures.answer_texts import budget_of
from sparseq.released.render import HIGH_SUFFIX, LOW_SUFFIX, columns_of
from sparseq.store.address import backend_at
from sparseq.store.answer import Answer
from sparseq.stream.stream_progress import COURSE, Course
from sparseq.version import __version__

if TYPE_CHECKING:
    from sparseq.ledger.protocol import Loss
    from sparseq.sql.catalog import AccountWindow, Catalog
    from sparseq.store.backend import Backend

# -- the promise of a store to everybody in it, and the progress of its stream: public facts -------

DELTAS = (1e-5, 1e-6, 1e-9, 1e-12)
LEAST_PEOPLE = "least people"
"""The fact that a ledger keeps of the fewest people that a shown value is about, once raised."""
_MOST_LEAST = 10**9


def checked_least(people: int) -> int:
    """Return the fewest people that a shown value may be about.

    Raises:
        ParameterError: It is no number of people.
    """
    if isinstance(people, bool) or not isinstance(people, int) or not 0 <= people <= _MOST_LEAST:
        raise ParameterError(f"least_people is {people!r}", "it is a number of people, such as 10")
    return people


class StorePromise:
    """The public facts of a store.

    Attributes:
        budget: What is promised, and the norm_budget of a person.
        reserves: The shares of every budget that are set aside, by what for.
        purposes: The series that have parts of every budget.
        halt: Whoever could not pay once stays out.
        seed: Of noise that can be repeated; None: there is privacy.
        losses: See `sparseq.Store`.
        catalog: Its tables.
        window: What of a person has an account; None: all of a person.
    """

    def __init__(self, backend: Backend) -> None:
        settings = backend.settings
        self._ledger, self._weights = backend.ledger, settings.get("weights")
        self._link: Mapping[str, Any] | None = settings.get("population")
        self._lifetime: int | None = settings.get("lifetime")
        self._least: int = settings.get("least_people", 0)
        self.reserves = {Pot[k.upper()]: float(v) for k, v in settings["reserves"].items()}
        self.budget = Budget(
            settings["kappa"],
            settings["norm_budget"],
            gaussian=Pot.WATCH not in self.reserves,
            keys_delta=settings.get("keys_delta", 0.0),
        )
        self.halt: bool = settings["halt"]
        self.purposes: tuple[Purpose, ...] = backend.ledger.pots.purposes
        self.seed: int | None = settings["seed"]
        self.losses: tuple[Loss, ...] = backend.losses
        self.catalog: Catalog = backend.catalog
        self.window: AccountWindow | None = backend.catalog.window

    @property
    def population(self) -> dict[str, Any] | None:
        """The draws from a population, as plain data; None: the budget is the store's own."""
        return drawn_facts(self._ledger, self._link)

    @property
    def parts(self) -> dict[Pot, float]:
        """Each pot's part of norm_budget."""
        whole = Pots(np.array([budget_units(self.budget.norm_budget)]), self.reserves)
        parts = {pot: int(part.budgets[0]) / UNITS_PER_NORM for pot, part in whole.items()}
        series = sum(p.kappa for p in self.purposes) / self.budget.kappa
        return parts | {Pot.QUERIES: parts[Pot.QUERIES] - series * self.budget.norm_budget}

    @cached_property
    def begun(self) -> Course | None:
        """The beginning of a stream of weighted answers; None: people are in or out."""
        if self._weights is None:
            return None
        tau, least = self._weights["tau"], self._weights["least"]
        return Course.begun(tau, least, self.for_questions, self._lifetime)

    @property
    def for_questions(self) -> Fraction:
        """Share of every budget that a new store has for questions."""
        shares = [*self.reserves.values(), *(p.share for p in self.purposes if not p.came)]
        return 1 - sum(map(Fraction, shares), Fraction())

    @property
    def least_people(self) -> int:
        """The fewest people, as counted with noise, that a shown value is about; 0: any number."""
        return int(self._ledger.fact(LEAST_PEOPLE) or self._least)

    @property
    def course(self) -> Course | None:
        """The progress of the stream of weighted answers, by what is durable."""
        kept = None if self.begun is None else self._ledger.fact(COURSE)
        return self.begun if kept is None else Course.from_dict(kept)

    @property
    def watch(self) -> dict[str, Any] | None:
        """The settings that the watch was begun with; None: it was not."""
        return watch_begun(self._ledger)

    @property
    def releases(self) -> int:
        """Number of answers that were released."""
        return len(self._ledger)

    @property
    def first_release(self) -> Release | None:
        """The first answer that was released; None: nothing was."""
        return next(iter(self._ledger.releases(1, 2)), None)

    @property
    def last_release(self) -> Release | None:
        """The latest answer that was released; None: nothing was."""
        return next(iter(self._ledger.releases(1)), None)

    def facts(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        budget, window = self.budget, self.window
        return {
            "kappa": budget.kappa,
            "keys_delta": budget.keys_delta,
            "promise": budget.promise,
            "mu": budget.mu,
            "epsilon": [dict(one) for one in _epsilons(budget)],
            "norm_budget": budget.norm_budget,
            "parts": {pot.name.lower(): part for pot, part in self.parts.items()},
            "purposes": [
                {
                    "name": p.name,
                    "kappa": p.kappa,
                    "share": p.share,
                    "later": p.came > 0,
                    "ticks": p.ticks,
                    "sigma": p.budget().sigma_0,
                }
                for p in self.purposes
            ],
            "sigma_0": budget.sigma_0,
            "worst_case_queries": budget.worst_case_queries(),
            "watch": self.watch,
            "releases": self.releases,
            "halt": self.halt,
            "least_people": self.least_people,
            "weighted": self.course_facts(),
            "unit": "" if window is None else window.said,
            "lifetime_kappa": None if window is None else window.lifetime,
            "population": self.population,
            "seeded": self.seed is not None,
            "losses": [asdict(loss) for loss in self.losses],
        }

    def card(self, notes: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return a deployment card: what is promised to whom, and how it came; public facts.

        Its parts are those of the registry of deployments (https://registry.opendp.org), after
        which NIST SP 800-226 asks as well: the unit, the level, whom one has to trust, how answers
        add up, the mechanism. What nobody can read off the store, `notes` say: `NOTES`.

        Raises:
            ParameterError: There is no such note.

        Example:
            >>> import pyarrow as pa, sparseq
            >>> con = sparseq.create(None, pa.table({"who": [7, 8]}), user="who")
            >>> card = con.promise.card({"curator": "a shop"})
            >>> card["privacy_loss"]["privacy_parameters"]["rho"], card["so_far"]["releases"]
            (0.5, 0)
        """
        said = dict(notes or {})
        for name in said:
            if name not in NOTES:
                raise ParameterError(
                    f"a card has no note {name!r}", did_you_mean(name, NOTES) or ", ".join(NOTES)
                )
        return {part: make(self, said) for part, make in _CARD.items()}

    def course_facts(self) -> dict[str, Any] | None:
        """Return how far a stream of weighted answers has come, from released numbers."""
        course = self.course
        if course is None:
            return None
        return {
            "answers": course.answers,
            "least_weight": course.least_allowance(1.0) if course.sure else 0.0,
            "usual_weight": course.usual_weight(self.budget.sigma_0),
            "full_answers": course.full_answers,
        }


@contextlib.contextmanager
def open_promise(path: str | Path) -> Iterator[StorePromise]:
    """Open a store for its promise alone; raises what `sparseq.connect` does.

    Example:
        >>> import pyarrow as pa, sparseq, tempfile
        >>> path = tempfile.mkdtemp() + "/shop"
        >>> sparseq.create(path, pa.table({"who": [7, 8]}), user="who", kappa=0.5).close()
        >>> with open_promise(path) as promise:
        ...     promise.budget.kappa, promise.releases
        (0.5, 0)
    """
    backend = backend_at(path)
    try:
        yield StorePromise(backend)
        backend.close()
    finally:
        backend.release()


@lru_cache(maxsize=64)
def _epsilons(budget: Budget) -> tuple[dict[str, float | None], ...]:
    return tuple(
        {
            "delta": d,
            "gdp": budget.epsilon(d) if budget.gaussian else None,
            "zcdp": budget.epsilon_zcdp(d),
        }
        for d in DELTAS
    )


# -- a card: a store as a deployment of differential privacy ---------------------------------------

NOTES = {
    "name": "of what is published",
    "curator": "who holds the data, and publishes",
    "use": "what it is meant for",
    "description": "what the data are",
    "region": "where the people live, or whose law applies",
    "sector": "such as Healthcare",
    "contact": "who answers questions",
    "level": "why this level",
    "others": "what else is published about the same people",
}
"""Entries of a card that only its curator knows."""


def _basic(promise: StorePromise, notes: dict[str, str]) -> dict[str, Any]:
    first = promise.first_release
    return {
        "name": notes.get("name"),
        "data_curators": notes.get("curator"),
        "intended_use": notes.get("use"),
        "description": notes.get("description"),
        "data_product_type": "SQL queries",
        "data_product_region": notes.get("region"),
        "data_product_sector": notes.get("sector"),
        "publication_date": None if first is None else first.released_at.date().isoformat(),
    }


def _variant(promise: StorePromise, notes: dict[str, str]) -> dict[str, Any]:
    tables = [f"{t.name} ({', '.join(c.name for c in t.columns)})" for t in promise.catalog.private]
    public = [t.name for t in promise.catalog.tables if not t.private]
    return {
        "variant_name": "Zero-concentrated DP",
        "promise": promise.budget.promise,
        "data_domain": "any rows of " + "; ".join(tables),
        "unprotected_quantities": [
            "names and types of tables and columns, declared bounds and keys",
            "texts of questions, how many there were, and when",
            "names of files, and when rows arrived",
            *(f"the table {name}, which is not about people" for name in public),
        ],
    }


def _loss(promise: StorePromise, notes: dict[str, str]) -> dict[str, Any]:
    budget, window = promise.budget, promise.window
    person = promise.catalog.private[0].user
    unit = f"all rows of one {person}" if window is None else f"all rows of {window.said}"
    lifetime = None if window is None else window.lifetime
    return {
        "privacy_unit": unit,
        "privacy_unit_details": f"neighbours differ by {unit}, added or removed",
        "privacy_parameters": {
            "rho": budget.kappa,
            "mu": budget.mu,
            "epsilon": budget.epsilon(DELTA),
            "delta": DELTA,
        },
        "keys_delta": budget.keys_delta,
        "rho_of_all_windows": lifetime,
        "right_guess": None if budget.mu is None else gdp.best_guess(budget.mu),
        "privacy_parameters_details": "for all answers ever, together, however they were chosen",
    }


def _model(promise: StorePromise, notes: dict[str, str]) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "actors": "the curator and the machine are trusted; analysts are not, and may conspire",
        "release_type": "Many releases",
        "data_source_type": "Dynamic",
        "access_type": "Interactive",
    }


def _describe_accounting(promise: StorePromise, notes: dict[str, str]) -> dict[str, Any]:
    return {
        "composition": "an account for each person, which no sequence of questions can overdraw, "
        "whatever depends on what (Feldman & Zrnic 2021, Algorithm 2)",
        "post_processing": "intervals, arithmetic and conditions on noised numbers",
        "not_shown": f"values about fewer than {promise.least_people:,} people, as counted with "
        "noise"
        if promise.least_people
        else None,
        "other_releases": notes.get("others"),
    }


def _implementation(promise: StorePromise, notes: dict[str, str]) -> dict[str, Any]:
    watch = Pot.WATCH in promise.reserves
    return {
        "mechanisms": "Gaussian noise, rounded, sampled exactly from the operating system's "
        "generator" + ", and a sparse vector for an alarm" * watch,
        "justification": notes.get("level"),
        "floating_point": "who takes part, charges and sums are in integers",
        "not_covered": [
            "how long an answer takes",
            "who can read the store's file, or the machine's memory",
            "facts about groups of people: two together are protected as by 4 times rho",
            "other releases about the same people, whose levels add up",
        ],
        "software": f"sparseq {__version__}",
    }


def _so_far(promise: StorePromise, notes: dict[str, str]) -> dict[str, Any]:
    last = promise.last_release
    return {
        "releases": promise.releases,
        "last_release": None if last is None else last.released_at.date().isoformat(),
        "spent": "of each person at most the level above; how much of it, only the curator sees",
        "course": promise.course_facts(),
        "series": [{"name": p.name, "share": p.share, "ticks": p.ticks} for p in promise.purposes],
        "ends": "never: with more questions intervals widen"
        if promise.begun is not None
        else "never: who can't pay for a question is left out of it",
        "not_private": "seeded: its noise can be computed" if promise.seed is not None else None,
        "holes": [asdict(loss) for loss in promise.losses],
        "contact": notes.get("contact"),
    }


_CARD = {
    "basic": _basic,
    "dp_variant": _variant,
    "privacy_loss": _loss,
    "deployment_model": _model,
    "accounting": _describe_accounting,
    "implementation": _implementation,
    "so_far": _so_far,
}

# -- public facts of a store, an answer or a release, as plain data --------------------------------


def answer_facts(answer: Answer) -> dict[str, Any]:
    """Return the answer as plain data; sigma and bounds are lists if there are several measures."""
    facts = answer.facts
    bounds, corollary = both_bounds(answer)

    def only(numbers: tuple[float, ...]) -> Any:
        return numbers[0] if len(numbers) == 1 else numbers

    return {
        "columns": answer.arrow().column_names,
        "rows": answer.rows(),
        "measures": facts.labels,
        "sigma": only(facts.sigma),
        "bound": only(bounds),
        "corollary_bound": only(corollary),
        "confidence": facts.confidence,
        "coordinates": facts.coordinates,
        "release": facts.release,
        "request_id": facts.request_id,
        "query": facts.query,
        "guarantee": guarantee_facts(budget_of(answer.facts)),
        "seeded": facts.seeded,
        "losses": facts.losses,
        **({"repeated": True} if facts.repeated else {}),
        **({"follows": True} if facts.follows else {}),
        **({"notes": facts.notes} if facts.notes else {}),
        **(
            {"interval": facts.interval, "price": facts.price, "scale": only(facts.scale)}
            if facts.interval
            else {}
        ),
    }


def both_bounds(answer: Answer) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return ± and Corollary 4.7's bound at the answer's confidence, one a measure."""
    beta = 1 - answer.facts.confidence
    tight, corollary = answer.bound(beta), answer.corollary_bound(beta)
    return _many(tight), _many(corollary)


def _many(numbers: float | tuple[float, ...]) -> tuple[float, ...]:
    return numbers if isinstance(numbers, tuple) else (numbers,)


def guarantee_facts(budget: Budget) -> dict[str, Any]:
    """Return the guarantee as plain data."""
    return {
        "kappa": budget.kappa,
        "keys_delta": budget.keys_delta,
        "mu": budget.mu,
        "epsilon": _epsilon(budget),
        "delta": DELTA,
        "norm_budget": budget.norm_budget,
    }


@lru_cache(maxsize=64)
def _epsilon(budget: Budget) -> float:
    return budget.epsilon(DELTA)


def release_facts(release: Release) -> dict[str, Any]:
    """Return a release, without its answer, as plain data: see `RELEASE_FACTS`."""
    answer = Answer.from_bytes(release.answer)
    return {name: fact(release, answer) for name, fact in RELEASE_FACTS.items()}


def half_widths(answer: Answer) -> list[float]:
    """Return the median half-width of the intervals about everybody, one a column; [] without."""
    table, found = answer.arrow(), []
    for name in columns_of(table):
        if name + LOW_SUFFIX in table.column_names:
            ends = zip(table[name + LOW_SUFFIX], table[name + HIGH_SUFFIX], strict=True)
            known = [(b.as_py() - a.as_py()) / 2 for a, b in ends if a.is_valid and b.is_valid]
            found.append(float(np.median(known)) if known else math.inf)
    return found


RELEASE_FACTS: Mapping[str, Callable[[Release, Answer], Any]] = {
    "release": lambda release, _: release.id,
    "released_at": lambda release, _: release.released_at.isoformat(timespec="seconds") + "Z",
    "request_id": lambda release, _: release.request_id,
    "asked_by": lambda release, _: release.asker.value,
    "pot": lambda release, answer: answer.facts.series or release.pot.name.lower(),
    "query": lambda release, _: release.query,
    "coordinates": lambda release, _: release.coordinates,
    "sigma": lambda release, _: list(release.sigma),
    "bound": lambda _, answer: list(both_bounds(answer)[0]),
    "half_width": lambda _, answer: half_widths(answer),
    "corollary_bound": lambda _, answer: list(both_bounds(answer)[1]),
    "confidence": lambda release, _: release.confidence,
    "root": lambda release, _: release.root or None,
}
"""The columns of `sparseq history`: facts of a release and its answer, by name, in order."""
