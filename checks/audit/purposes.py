"""Neighbouring stores with parts of budgets: made with the store, and moved to later.

As in `sequences`, each step is done to four stores, the first one's outputs frozen in the others.
Questions are paid from one part or another; prices and charges are those of the part.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
from collections.abc import Iterator
from fractions import Fraction

import pyarrow as pa

import sparseq
from checks.audit.comparison import UNITS, Finding, Terms, compare
from checks.audit.neighbours import ALONE, VARIANTS, WITH, WITHOUT
from checks.audit.seams import Seen
from checks.audit.trial import Act, Trial
from sparseq.ledger.pots import Pot
from sparseq.ledger.purposes import Purpose
from sparseq.question.plan import Options
from sparseq.store.store import Store
from sparseq.stream.new_purpose import add_purpose

STEPS = 24
PERSON, CROWD = 5_000, range(10, 16)
QUERIES = (
    "SELECT count(DISTINCT who) AS n FROM t WHERE day = DATE '{}'",
    "SELECT s, count(*) AS n FROM t WHERE day >= DATE '{}' GROUP BY s",
    "SELECT sum(x) AS n FROM t WHERE day <= DATE '{}'",
)
_FIRST = dt.date(2024, 1, 1)
_SCHEMA = pa.schema(
    [("who", pa.int64()), ("day", pa.date32()), ("s", pa.string()), ("x", pa.float64())]
)


def run(trial: Trial) -> Iterator[Finding]:
    """Let four stores live; yield what breaks a rule, with all that was done before."""
    rng = trial.rng
    whole = Terms(0.5, rng.choice((3.0, 9.0, 48.0)))
    in_or_out, seed = rng.random() < 0.5, rng.randrange(2**31)
    first = [Purpose("a", rng.choice((0.2, 0.5)), rng.choice((3, 8)))] * rng.choice((0, 1))
    turn = {"terms": whole, "pot": Pot.QUERIES}

    def create(_: str) -> Store:
        known = pa.Table.from_pylist([_row(7, _FIRST, "a", 3.5)], _SCHEMA)
        return sparseq.create(
            None,
            {"t": known},
            user="who",
            keys={"s": ["a", "b"]},
            bounds={"x": (0, 10)},
            seed=seed,
            purposes=[sparseq.Questions(in_or_out=in_or_out, counts=whole.norm_budget), *first],
        )

    def check(seen: dict[str, Seen]) -> Iterator[Finding]:
        yield from compare(seen, PERSON, turn["terms"])  # type: ignore[arg-type]
        for variant, store in stores.items():
            yield from _parts(variant, store, whole)
        yield from _own(stores)

    with contextlib.ExitStack() as stack:
        stores = {v: stack.enter_context(create(v)) for v in VARIANTS}
        steps = (_step(rng, n, stores, turn) for n in range(STEPS))
        story = f"{whole}, in or out {in_or_out}, {first}"
        yield from trial.life(story, stores, steps, check)


def _step(
    rng: random.Random, number: int, stores: dict[str, Store], turn: dict[str, object]
) -> tuple[str, Act]:
    """Return the next action and its description."""
    store = stores[WITHOUT]
    what = rng.random()
    if number == 0 or what < 0.25:
        return _rows(rng, number)
    if what < 0.4 and len(store.stream.pots.purposes) < 4:
        made = Purpose(
            f"p{number}", rng.choice((0.1, 0.3, 0.6)), rng.choice((2, 6)), rng.choice((1.0, 4.0))
        )
        return f"{made} comes", lambda _, s: repr(add_purpose(s.stream, made))
    pots = [Pot.QUERIES, *(Pot(p.answers) for p in store.stream.pots.purposes)]
    pot = rng.choice(pots)
    budget = store.stream.part(pot).budget
    turn["terms"] = Terms(budget.kappa, budget.norm_budget)
    sql = rng.choice(QUERIES).format(_FIRST + dt.timedelta(rng.randrange(number + 1)))
    if rng.random() < 0.5:
        return f"{sql} from {pot.name}", lambda _, s: _shown(
            s.ask(s.lower(sql), fresh=True, pot=pot)
        )
    options = Options(sigma=rng.choice((2.0, 5.0, 9.0)))

    def step(_: str, s: Store) -> object:
        return _shown(s.step(s.lower(sql), s.stream.contributions, options, pot=pot))

    return f"{sql} in or out from {pot.name}", step


def _shown(answer: sparseq.Answer) -> object:
    return [answer.rows(), answer.facts.series, answer.facts.interval]


def _rows(rng: random.Random, number: int) -> tuple[str, Act]:
    """Rows come in, of the person too."""
    day = _FIRST + dt.timedelta(number)

    def some(who: int) -> dict[str, object]:
        return _row(who, day, rng.choice("abc"), rng.choice((0.25, 3.5, 9.75, 100.0)))

    crowd = [some(rng.choice(CROWD)) for _ in range(rng.randint(0, 6))]
    person = [some(PERSON) for _ in range(rng.choice((0, 1, 1, 4)))]
    of = {WITHOUT: crowd, WITH: [*crowd, *person], ALONE: person}

    def take(variant: str, store: Store) -> object:
        store.ingest(pa.Table.from_pylist(of.get(variant, []), _SCHEMA))
        return "taken in"

    return f"rows of {day}, {len(person)} the person's", take


def _accounts(store: Store) -> dict[object, list[tuple[str, int, int]]]:
    """Return each person's budget and spending in each part: private."""
    people = range(store.stream.people.inside())
    names = store.stream.ledger.identifiers(people)
    pots = store.stream.pots.items()
    return {
        names[i]: [(pot.name, int(a.budgets[i]), int(a.spent[i])) for pot, a in pots]
        for i in people
    }


def _parts(variant: str, store: Store, whole: Terms) -> Iterator[Finding]:
    """All parts of a person together are worth no more than kappa."""
    pots, one = store.stream.pots, Fraction(whole.kappa) / Fraction(whole.norm_budget) / UNITS
    unit = {Pot.QUERIES: one}
    for p in pots.purposes:
        for number in (p.answers, p.forecasts):
            unit[Pot(number)] = Fraction(p.kappa) / Fraction(p.counts) / UNITS
    for user in range(store.stream.people.inside()):
        worth = -pots.moved(user) * one
        worth += sum((int(a.budgets[user]) * unit[pot] for pot, a in pots.items()), Fraction(0))
        if worth > Fraction(whole.kappa):
            yield Finding("parts", f"{variant}: parts are worth {float(worth):.6g}")
            return


def _own(stores: dict[str, Store]) -> Iterator[Finding]:
    """Check that each person's parts do not depend on the other people."""
    seen: dict[object, list[tuple[str, int, int]]] = {}
    for variant, store in stores.items():
        for who, parts in _accounts(store).items():
            if seen.setdefault(who, parts) != parts:
                yield Finding(
                    "accounts of others", f"{variant}: {who} has {parts}, not {seen[who]}"
                )
                return


def _row(who: int, day: dt.date, s: str, x: float) -> dict[str, object]:
    return {"who": who, "day": day, "s": s, "x": x}
