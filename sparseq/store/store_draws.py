"""The store's side of a population: its accounts are the amounts that it has drawn."""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sparseq.accounting import Budget
from sparseq.accounting.charge import UNITS_PER_NORM, budget_units
from sparseq.base.errors import ParameterError
from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.notes import Fact
from sparseq.ledger.packed_integers import pack, pack_set
from sparseq.ledger.population_draws import DRAWN, Begun, Drawn
from sparseq.ledger.pots import DRAWS, Pot
from sparseq.ledger.protocol import Ledger
from sparseq.ledger.releases import Entry
from sparseq.ledger.series_users import forget_taken, held
from sparseq.store.backend import Backend
from sparseq.store.population import UNITS, DrawRequest, Given, check_there, open_population
from sparseq.stream.new_purpose import quiet_release
from sparseq.stream.step import Stream
from sparseq.stream.stream_progress import Course


def drawn_by(backend: Backend) -> Drawn:
    """Return the amounts that a store has drawn from its population."""
    return Drawn.by(backend.ledger, backend.settings["population"])


def describe_link(place: str | Path, name: str, budget: Budget, draw: float) -> dict[str, Any]:
    """Return the settings of a new store about its population: public.

    Args:
        place: Path of the population.
        name: Name of the store.
        budget: The most that the store may ever draw.
        draw: Share of that budget to draw at once.

    Raises:
        ParameterError: The budget is more than the population has.
        StoreError: See `open_population`.
    """
    share = _share(draw)
    with open_population(place) as population:
        if budget.kappa > population.kappa:
            raise ParameterError(
                f"the store may draw {budget.kappa:.6g} at most, and the population has "
                f"{population.kappa:.6g}",
                "a smaller --kappa, or --epsilon",
            )
        return {
            "id": population.id,
            "kappa": population.kappa,
            "units": UNITS,
            "marks": population.marks,
            "place": str(Path(place).resolve()),
            "name": name,
            "draw": str(share),
        }


def settle(stream: Stream, backend: Backend, without: bool = False) -> None:
    """Finish a draw that was begun, and write off lost budget.

    Args:
        stream, backend: Parts of the store.
        without: Go on without the population if it is missing: nobody is given anything.

    Raises:
        StoreError: The draw needs the population, which can't be opened.
    """
    if backend.settings.get("population") is None:
        return
    with stream.lock:
        stream.flush()
        drawn = drawn_by(backend)
        if len(backend.losses) > drawn.losses:
            drawn = _written_off(stream, backend, drawn)
        if drawn.begun is not None and without and not Path(drawn.place).is_file():
            _given_up(stream, backend, drawn)
        elif drawn.begun is not None:
            _finish(stream, backend, drawn)


@contextlib.contextmanager
def newcomers(stream: Stream, backend: Backend) -> Iterator[None]:
    """Run a block in which people may come to a store; then give them what others were given.

    The draw is begun before the block, and happens even if nobody is new: the arrival of rows is
    public, and the people in them are private.

    Raises:
        StoreError: The population is not at its place: nobody is added.
    """
    if backend.settings.get("population") is None:
        yield
        return
    with stream.lock:
        settle(stream, backend)
        drawn = drawn_by(backend)
        check_there(Path(drawn.place))
        begun = Begun(secrets.token_hex(16), drawn.share, newcomers=True)
        note(stream.ledger, replace(drawn, begun=begun))
        try:
            yield
        finally:
            whole = not (stream.half_done or backend.half_done)
            if whole and backend.database is not None:  # else it is done at the next opening
                settle(stream, backend)


def draw(stream: Stream, backend: Backend, share: float, place: str | Path | None = None) -> None:
    """Draw a share of the total that a store may ever draw; durable when it returns.

    Raises:
        ParameterError: The store has no population, or has already drawn all.
        StoreError: The population can't be opened.
    """
    _check_linked(backend)
    asked = _share(share)
    with stream.lock:
        if place is not None:
            move(stream, backend, place)
        settle(stream, backend)
        drawn = drawn_by(backend)
        left = 1 - Fraction(drawn.share)
        if asked > left:
            raise ParameterError(
                f"the store may draw {float(left):.4%} more of its {_kappa(backend):.6g}",
                "a store's kappa is the most that it ever draws, said when it is made",
            )
        begun = Begun(secrets.token_hex(16), str(asked))
        _finish(stream, backend, note(stream.ledger, replace(drawn, begun=begun)))


def move(stream: Stream, backend: Backend, place: str | Path) -> None:
    """Tell a store the new path of its population.

    Raises:
        ParameterError: The store has no population.
        StoreError: The population is not at that path.
    """
    _check_linked(backend)
    with open_population(place, backend.settings["population"]["id"]):
        pass
    with stream.lock:
        note(stream.ledger, replace(drawn_by(backend), place=str(Path(place).resolve())))


def _check_linked(backend: Backend) -> None:
    if backend.settings.get("population") is None:
        raise ParameterError(
            "the store has a budget of its own, and no population",
            "a store is made with one: `sparseq create STORE … --population POPULATION`",
        )


def _share(share: float) -> Fraction:
    if not 0 < share <= 1:
        raise ParameterError(f"the share to draw is {share:.6g}", "more than 0, and at most 100%")
    return Fraction(share).limit_denominator(10**6)


def _kappa(backend: Backend) -> float:
    return float(backend.settings["kappa"])


def note(ledger: Ledger, drawn: Drawn) -> Drawn:
    """Write the progress of a store's draws durably."""
    ledger.in_transaction(lambda: ledger.write(drawn.fact()))
    return drawn


def _whom(stream: Stream, backend: Backend, begun: Begun) -> dict[int, str]:
    """Return the people of a draw with their identifiers, without erased people: private."""
    users = backend.people().inside()
    if begun.newcomers:
        users = users[stream.pots.drawn(users) < 0]
    known = stream.ledger.identifiers(users.tolist())
    return {user: str(name) for user in users.tolist() if (name := known[user]) is not None}


def _finish(stream: Stream, backend: Backend, drawn: Drawn) -> Drawn:
    """Ask the population for a draw that was begun, and add the given units to the accounts."""
    begun, link = drawn.begun, backend.settings["population"]
    assert begun is not None
    if backend.ledger.fact(DRAWN) is None:
        note(stream.ledger, drawn)  # the nonce of the first draw, before the request
    whom = _whom(stream, backend, begun)
    table = backend.catalog.private[0]
    asked = DrawRequest(
        backend.settings["store"],
        link["name"],
        begun.nonce,
        drawn.draws,
        math.ceil(
            UNITS * Fraction(begun.share) * Fraction(_kappa(backend)) / Fraction(link["kappa"])
        ),
        begun.newcomers,
        table.column(table.user).type,
        list(whom.values()),
    )
    with open_population(drawn.place, link["id"]) as population:
        given = population.give(asked)
    return _add(stream, backend, drawn, np.array(list(whom), np.int32), given, asked.amount)


def _given_up(stream: Stream, backend: Backend, drawn: Drawn) -> None:
    """Give up a draw that was begun: the population is gone, and new people have no budget."""
    assert drawn.begun is not None
    begun = replace(drawn.begun, share=drawn.share if drawn.begun.newcomers else "0")
    whom = np.array(list(_whom(stream, backend, begun)), np.int32)
    nothing = Given(None, 0, np.zeros(len(whom), np.int64))
    _add(stream, backend, replace(drawn, begun=begun), whom, nothing, 0)


def _add(
    stream: Stream, backend: Backend, drawn: Drawn, users: Index, given: Given, amount: int
) -> Drawn:
    """Add the units given by the population to the accounts, in one transaction."""
    begun, ledger, pots = drawn.begun, stream.ledger, stream.pots
    assert begun is not None
    rate, cap = _rate(backend.settings), budget_units(backend.settings["norm_budget"])
    units = np.minimum(_convert(given.units, rate), cap - np.maximum(pots.drawn(users), 0))
    before = 0 if begun.newcomers else drawn.units
    least = np.array([min(int(rate * given.least), cap - before)])
    release = stream.next_release
    parts = pots.split(least, release)
    courses = {
        pot: _course_after(part.course, int(parts[pot][0]), begun.newcomers)
        for pot, part in stream.parts.items()
        if part.course is not None
    }
    done = replace(drawn, draws=given.number, begun=None)
    if not begun.newcomers:
        share = Fraction(drawn.share) + Fraction(begun.share)
        most = min(drawn.units + int(rate * amount), cap)
        done = replace(done, share=str(share), units=most)
    packed = [bytes(pack_set(users))], [bytes(pack(units))]
    rows = DRAWS.rows(number=given.number or 0, release=release, users=packed[0], units=packed[1])

    def work() -> None:
        ledger.write(rows)
        ledger.write(done.fact())
        for pot, course in courses.items():
            ledger.write(Fact(stream.parts[pot].key, course.to_dict()))

    ledger.in_transaction(work)
    stream.half_done = True
    pots.draw(users, units, release)
    for pot, course in courses.items():
        stream.parts[pot].course = course
    stream.half_done = False
    return done


def _rate(settings: Mapping[str, Any]) -> Fraction:
    """Return the exact number of units of a store that equal one unit of its population."""
    link = settings["population"]
    own = Fraction(settings["kappa"]) / Fraction(settings["norm_budget"]) / UNITS_PER_NORM
    return Fraction(link["kappa"]) / int(link["units"]) / own


def _convert(units: Ints, rate: Fraction) -> Ints:
    """Return units of the population in units of the store, rounded down, so never worth more.

    Example:
        >>> _convert(np.array([10, 0, 10]), Fraction(1, 3)).tolist()
        [3, 0, 3]
    """
    different, which = np.unique(units, return_inverse=True)
    return np.array([int(rate * one) for one in different.tolist()], np.int64)[which]


def _course_after(course: Course, units: int, newcomers: bool) -> Course:
    """Return the course after everybody, or every newcomer, was given at least `units`.

    After equal gifts people have faded less, so measured tails no longer hold.
    """
    given = units / UNITS_PER_NORM
    if newcomers:
        begun_with = min(course.begun_with or given, given)
        return replace(course, least=min(course.least, given), begun_with=begun_with)
    return replace(course, least=max(course.least, 0.0) + given, tails={}, begun_with=0.0)


def _written_off(stream: Stream, backend: Backend, drawn: Drawn) -> Drawn:
    """Count all budget of a store as spent: a lost part of the store may have spent it.

    It is a release of the stream without noise: the loss is public, and each person is charged all
    that the person has. This copy never gets the draws of another copy: `draws` is None, so the
    population continues after the last draw that it knows of.
    """
    ledger, nobody = stream.ledger, np.zeros(0, np.int32)
    own = {p.name: Pot(p.answers) for p in stream.pots.purposes}
    for series, users, _ in held(ledger):
        stream.pots[own.get(series, Pot.QUERIES)].hold(series, nobody, np.zeros(0, np.int64))
        ledger.in_transaction(partial(forget_taken, ledger, users.tolist()))
    done = replace(drawn, losses=len(backend.losses), draws=None, begun=None)
    words = "a part of the store was lost: all that it had drawn from its population is spent"
    for pot, accounts in stream.pots.items():
        users = np.flatnonzero(accounts.budgets > accounts.spent).astype(np.int32)
        part, left = stream.part(pot), accounts.budgets[users] - accounts.spent[users]
        course = part.course and replace(part.course, least=0.0)
        notes = [done.fact(), *([] if course is None else [Fact(part.key, course.to_dict())])]
        release = quiet_release(stream, stream.next_release, words, {"part": pot.name.lower()}, pot)
        stream.half_done = True
        stream.charge(Entry(release, users, left, notes=tuple(notes)), course)
        stream.half_done = False
    stream.flush()
    return done
