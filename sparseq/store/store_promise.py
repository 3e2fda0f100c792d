"""The promise of a store to everybody in it, and the progress of its stream: public facts.

They come from its settings and its ledger; no other part of the store is opened.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseq.accounting.budget import Budget
from sparseq.accounting.charge import UNITS_PER_NORM, budget_units
from sparseq.base.defaults import DELTA
from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.ledger.population_draws import drawn_facts
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.purposes import Purpose
from sparseq.ledger.releases import Release
from sparseq.ledger.watch_settings import watch_begun
from sparseq.store.open_address import backend_at
from sparseq.store.promise_statement import PromiseStatement
from sparseq.stream.faded_weights import usual_weight
from sparseq.stream.stream_progress import COURSE, Course
from sparseq.version import __version__

if TYPE_CHECKING:
    from sparseq.ledger.protocol import ReleaseArchive
    from sparseq.ledger.releases import Loss
    from sparseq.question.catalog import AccountWindow, Catalog
    from sparseq.store.backend import Backend


DELTAS = (1e-5, 1e-6, 1e-9, 1e-12)
LEAST_PEOPLE = "least people"
"""The ledger's fact with the fewest people that a shown value may be about, once raised."""
_MOST_LEAST = 10**9


def checked_least(people: int) -> int:
    """Return the fewest people that a shown value may be about.

    Raises:
        ParameterError: The value is not a number of people.
    """
    if isinstance(people, bool) or not isinstance(people, int) or not 0 <= people <= _MOST_LEAST:
        raise ParameterError(f"least_people is {people!r}", "it is a number of people, such as 10")
    return people


class StorePromise:
    """The public facts of a store.

    Args:
        backend: The backend of the store.
        records: Records to read instead of the ledger, if given.

    Attributes:
        budget: The promise, and the norm_budget of a person.
        reserves: The reserved shares of every budget, by purpose.
        purposes: The series with parts of every budget.
        halt: A person who could not pay once stays out.
        seed: The seed of repeatable noise; None: noise is secret, so answers are private.
        losses: See `sparseq.Store`.
        catalog: Its tables.
        window: The window of an account; None: an account is for a whole person.
    """

    def __init__(self, backend: Backend, records: ReleaseArchive | None = None) -> None:
        settings = backend.settings
        self._ledger: ReleaseArchive = backend.ledger if records is None else records
        self._weights = settings.get("weights")
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
        """The beginning of a stream of weighted answers; None: queries do not weigh users."""
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
        """The progress of the stream of weighted answers, from durable records."""
        kept = None if self.begun is None else self._ledger.fact(COURSE)
        return self.begun if kept is None else Course.from_dict(kept)

    @property
    def watch(self) -> dict[str, Any] | None:
        """The settings that the watch was begun with; None: it was not."""
        return watch_begun(self._ledger)

    @property
    def statement(self) -> PromiseStatement:
        """The promise in one object: its unit, levels and exclusions."""
        window, drawn = self.window, self.population
        return PromiseStatement.of(
            self.budget,
            self.catalog.private[0].user if window is None else window.person,
            "" if window is None else window.unit,
            None if window is None else window.lifetime,
            None if drawn is None else (drawn["place"], drawn["kappa"]),
            self.seed is not None,
            len(self.losses),
        )

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
        """Return all public facts as plain data."""
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
            "statement": self.statement.to_dict(),
            "population": self.population,
            "seeded": self.seed is not None,
            "losses": [asdict(loss) for loss in self.losses],
        }

    def card(self, notes: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return a deployment card with public facts: the promise, its unit and its mechanism.

        Its parts are those of the registry of deployments (https://registry.opendp.org), which NIST
        SP 800-226 also asks for: the unit, the level, the trust model, the composition of answers,
        the mechanism. `notes` give the facts that are not in the store: `NOTES`.

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
        """Return the progress of a stream of weighted answers, from released numbers."""
        course = self.course
        if course is None:
            return None
        return {
            "answers": course.answers,
            "least_weight": course.least_allowance(1.0) if course.sure else 0.0,
            "usual_weight": usual_weight(course),
            "full_answers": course.full_answers,
        }


@contextlib.contextmanager
def open_promise(path: str | Path) -> Iterator[StorePromise]:
    """Open a store for its promise alone; raises the errors of `sparseq.connect`.

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
    said = promise.statement
    return {
        "privacy_unit": f"all rows of {said.unit}",
        "privacy_unit_details": said.neighbours,
        "privacy_parameters": {
            "rho": said.level.kappa,
            "mu": said.level.mu,
            "epsilon": said.level.epsilon,
            "delta": DELTA,
        },
        "keys_delta": said.keys_delta,
        "rho_of_all_windows": None if said.lifetime is None else said.lifetime.kappa,
        "right_guess": said.guess,
        "several_units": said.several,
        "privacy_parameters_details": f"of {said.unit}, for all answers ever, together, however "
        "they were chosen",
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
        "not_covered": list(promise.statement.exclusions),
        "software": f"sparseq {__version__}",
    }


def _so_far(promise: StorePromise, notes: dict[str, str]) -> dict[str, Any]:
    last = promise.last_release
    return {
        "releases": promise.releases,
        "last_release": None if last is None else last.released_at.date().isoformat(),
        "spent": f"of {promise.statement.unit} at most the level above; how much of it, only the "
        "curator sees",
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
