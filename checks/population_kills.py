"""kill -9 of three stores that draw on one population, at random moments: no budget is exceeded.

    python -m checks.population_kills --times 200 [--seed N] [--json]

Three processes at a time, one store each, about people of whom many are in several stores: they
ask, draw, load people, and report answers. All are killed; then, at some kills, a store's files, or
the population's, are put back to an earlier state, which must be refused, and are restored. Then
everything is opened and added up in exact fractions (`audited`): no person has more than the
population has charged it, no budget is exceeded, each answer's charges lie within draws that came
before it, and every reported answer is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path

import click
import numpy as np

import sparseq
import sparseq.sql.select  # these are what every child would else import
import sparseq.store.create
import sparseq.stream.expected_width
import sparseq.stream.weighted_answer
from checks.population_children import ENDS, NAMES, Children, make, serve
from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.base.errors import StoreError
from sparseq.ledger.packed_integers import unpack, unpack_set
from sparseq.ledger.pots import DRAWS, Pot
from sparseq.store.population import UNITS, open_population


def worth(con: sparseq.Store, pot: Pot = Pot.QUERIES) -> Fraction:
    """The kappa of one unit of a pot, exactly."""
    for p in con.stream.pots.purposes:
        if pot in (p.answers, p.forecasts):
            return Fraction(p.kappa) / Fraction(p.counts) / UNITS_PER_NORM
    return Fraction(con.guarantee.kappa) / Fraction(con.guarantee.norm_budget) / UNITS_PER_NORM


def audited(population: Path, stores: Sequence[sparseq.Store]) -> None:
    """Add everything up.

    Raises:
        AssertionError: It does not.
    """
    held = defaultdict[str, Fraction](Fraction)
    for con in stores:
        names = con.stream.ledger.identifiers(con.backend.people().inside().tolist())
        for pot, accounts in con.stream.pots.items():
            assert np.all(accounts.spent <= accounts.budgets)
            each = worth(con, pot)
            for user, name in names.items():
                if name is not None:
                    moved = con.stream.pots.moved(user) if pot is Pot.QUERIES else 0
                    held[str(name)] += each * (int(accounts.budgets[user]) - moved)
        reserved(con)
    with open_population(population) as people:
        ledger, kappa = people.ledger, Fraction(people.kappa)
        again = np.zeros(people.people, np.int64)
        for release in ledger.releases():
            users, units = ledger.charges(release.id)
            again[users] += units
        assert np.array_equal(again, people.spent)
        assert np.all(people.spent <= UNITS)
        names = ledger.identifiers(range(people.people))
        charged = {name: int(people.spent[user]) for user, name in names.items()}
    for name, whole in held.items():
        assert whole <= Fraction(charged.get(name, 0), UNITS) * kappa <= kappa, name


def reserved(con: sparseq.Store) -> None:
    """Check that each answer's charges lie within draws that were done before it."""
    ledger, pots = con.stream.ledger, con.stream.pots
    drawn = {pot: np.zeros(len(pots), np.int64) for pot, _ in pots.items()}
    spent = {pot: np.zeros(len(pots), np.int64) for pot, _ in pots.items()}
    draws = ledger.notes(DRAWS).to_pylist()
    for release in ledger.releases():
        while draws and draws[0]["release"] <= release.id:
            row = draws.pop(0)
            users = unpack_set(row["users"])
            for pot, part in pots.split(unpack(row["units"]), row["release"]).items():
                drawn[pot][users] += part
        users, charges = ledger.charges(release.id)
        spent[release.pot][users] += charges
        assert np.all(spent[release.pot] <= drawn[release.pot]), release.id


@dataclass
class Report:
    """The outcome of the trials.

    Attributes:
        kills: Number of killed processes.
        answers: Reported answers that were there afterwards.
        draws: By store.
        refused: Stores and populations that were put back, and refused.
        left: Guaranteed rest of everybody's budget at the end.
        failed: Output of children that ended by themselves.
        lost: Broken promises.
    """

    kills: int = 0
    answers: int = 0
    draws: list[int] = field(default_factory=list)
    refused: int = 0
    left: float = 1.0
    failed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """All held."""
        return not self.lost and not self.failed


def run(times: int, seed: int, steps: int = 12) -> Report:
    """Kill `times` processes, three at a time after at most `steps` steps, and check after each."""
    rng, report, children = random.Random(seed), Report(), Children()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        marks = make(folder)
        try:
            earlier = _copied(folder, folder / "earlier", marks)
            while report.kills < times:
                begun = [children.begin(folder / n, rng.randrange(2**31)) for n in NAMES]
                _wait(folder, rng.randint(0, steps))
                time.sleep(rng.uniform(0, 0.05))
                for number in rng.sample(begun, len(begun)):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)
                        report.kills += 1
                    _gone(number)
                if rng.random() < 0.5:
                    _put_back(folder, earlier, marks, rng, report)
                _look(folder, report)
                if rng.random() < 0.3:
                    earlier = _copied(folder, folder / "earlier", marks)
        finally:
            children.end()
    return report


def _wait(folder: Path, steps: int) -> None:
    """Wait until children have done this number of steps."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if sum(len(_said(folder / name)) for name in NAMES) >= steps:
            return
        time.sleep(0.005)


def _said(path: Path) -> list[int]:
    """Return the numbers of answers that a child told of; 0 is a step without."""
    said = Path(f"{path}.said")
    return [int(line) for line in said.read_text().split("\n")[:-1]] if said.exists() else []


def _gone(number: int) -> None:
    """Wait until a process has let go of its files."""
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(number, 0)
            time.sleep(0.002)


def _look(folder: Path, report: Report) -> None:
    report.draws = []
    with contextlib.ExitStack() as stack:
        try:
            stores = [stack.enter_context(sparseq.connect(folder / n)) for n in NAMES]
            audited(folder / "people", stores)
        except (AssertionError, StoreError) as error:
            report.lost.append(f"after {report.kills} kills: {error!r}")
            return
        for con, name in zip(stores, NAMES, strict=True):
            report.draws.append(con.budget()["population"]["draws"])
            told = _said(folder / name)
            report.answers += sum(number > 0 for number in told)
            if max(told, default=0) > con.released:
                report.lost.append(f"{name} has {con.released} answers, and told of {max(told)}")
            Path(folder / f"{name}.said").unlink(missing_ok=True)
            failed = Path(folder / f"{name}.failed")
            report.failed += failed.read_text().splitlines() if failed.exists() else []
            failed.unlink(missing_ok=True)
    report.left = sparseq.population_facts(folder / "people")["least_left"]


def _copied(folder: Path, to: Path, marks: Mapping[str, Path]) -> Path:
    """Copy all that may be put back, and the marks that tell whether anything has come since."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for name, mark in marks.items():
        shutil.copy(mark, to / f"{name}.mark")
        for end in ENDS:
            if (folder / f"{name}{end}").exists():
                shutil.copy(folder / f"{name}{end}", to)
    return to


def _put_back(
    folder: Path, earlier: Path, marks: Mapping[str, Path], rng: random.Random, report: Report
) -> None:
    """Put a store, or the population, back to an earlier state, which must be refused.

    If there was no answer since, and no draw, it may open: then nothing is tried.
    """
    names = [n for n in marks if marks[n].read_bytes() != (earlier / f"{n}.mark").read_bytes()]
    if not names:
        return
    name, now = rng.choice(names), _copied(folder, folder / "now", marks)
    _replace(folder, name, earlier)
    try:
        if name == "people":
            sparseq.population_facts(folder / name)
        else:
            sparseq.connect(folder / name).close()
        report.lost.append(f"{name} was put back, and opened")
    except StoreError:
        report.refused += 1
    _replace(folder, name, now)
    if marks[name].read_bytes() != (now / f"{name}.mark").read_bytes():
        report.lost.append(f"{name} was refused, and its mark has changed")


def _replace(folder: Path, name: str, source: Path) -> None:
    for end in ENDS:
        (folder / f"{name}{end}").unlink(missing_ok=True)
        if (source / f"{name}{end}").exists():
            shutil.copy(source / f"{name}{end}", folder)


@click.command()
@click.option("--times", default=200, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True)
@click.option("--serve", "serves", is_flag=True, hidden=True)
def main(times: int, seed: int, as_json: bool, serves: bool) -> None:
    """Kill stores that draw on one population."""
    if serves:
        serve()
        return
    report = run(times, seed)
    click.echo(json.dumps(asdict(report), indent=None if as_json else 1))
    if not report.ok:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
