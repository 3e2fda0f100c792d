"""kill -9 of three stores that draw on one population, at random moments: nobody is above it.

    python -m benchmarks.population_kills --times 200 [--seed N] [--json]

Three processes at a time, a store each, about people of whom many are in several: they ask, draw,
take in people, and say what was answered. All are killed; then, now and then, a store's files, or
the population's, are put back to what they were some kills ago, which must be refused, and are
brought back. Then everything is opened and added up in exact fractions (`audited`): no person has
more than the population has charged it, nobody is above the budget, each answer's charges lie
within draws that came before it, and every answer that was told of is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path

import click
import numpy as np
import pyarrow as pa

import sparseq
import sparseq.sql.select  # these are what every child would else import
import sparseq.store.create
import sparseq.stream.expected_width
import sparseq.stream.weighted_answer
from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.base.errors import StoreError
from sparseq.ledger.accounts import unpack, unpack_set
from sparseq.ledger.purposes import DRAWS, Pot
from sparseq.store.population import UNITS, open_population

NAMES = ("a", "b", "c")
PEOPLE, KAPPA, MOST, SHARE = 40, 0.5, 0.3, 0.002
QUERY = "SELECT count(*) AS n FROM t"
ENDS = ("", ".wal", ".session")


def make(folder: Path) -> dict[str, Path]:
    """Make a population and its stores, of which more may be drawn than there is; return marks."""
    sparseq.create_population(folder / "people", kappa=KAPPA)
    ids = {"people": sparseq.population_facts(folder / "people")["population"]}
    for k, name in enumerate(NAMES):
        rows = pa.table({"who": list(range(10 * k, 10 * k + 20))})
        with sparseq.create(
            folder / name,
            {"t": rows},
            user="who",
            population=(folder / "people", SHARE),
            kappa=MOST,
            purposes=[sparseq.Questions(counts=20_000), sparseq.Purpose("daily", 0.25, 4000)],
        ) as con:
            ids[name] = con.backend.settings["store"]
    return {name: folder / "people.marks" / f"{id}.mark" for name, id in ids.items()}


# -- the children ----------------------------------------------------------------------------------


def live(path: Path, seed: int) -> None:
    """Use a store until killed; a line in `PATH.said` for each answer that has left, and step."""
    rng = random.Random(seed)
    said = os.open(f"{path}.said", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    con = sparseq.connect(path)
    daily = Pot(con.stream.pots.purposes[0].answers)
    while True:
        kind = rng.choices(["ask", "series", "draw", "come"], [4, 1, 4, 1])[0]
        if kind in ("ask", "series"):
            pot = daily if kind == "series" else Pot.QUERIES
            number = con.ask(con.lower(QUERY), fresh=True, pot=pot).facts.release
            os.write(said, f"{number}\n".encode())
        elif kind == "draw":
            left = 1 - con.budget()["population"]["drawn"]
            if left > SHARE:
                con.draw(SHARE)
        else:
            con.ingest(pa.table({"who": [rng.randrange(PEOPLE)]}), again=True)
        os.write(said, b"0\n")


def serve() -> None:
    """Fork a child for each line `PATH SEED`, having imported everything; print its number."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        path, seed = line.rsplit(" ", 1)
        child = os.fork()
        if child == 0:
            try:
                live(Path(path), int(seed))
            except BaseException as error:
                with open(f"{path}.failed", "a") as file:
                    file.write(f"{error!r}\n")
            os._exit(1)
        os.write(1, f"{child}\n".encode())


class Children:
    """The process whose children are killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.population_kills", "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
        )

    def begin(self, path: Path, seed: int) -> int:
        """Begin a life; return the number of its process."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{path} {seed}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


# -- what must hold --------------------------------------------------------------------------------


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
        names = con.stream.ledger.identifiers(con.backend.people().tolist())
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
        kills: How many processes were killed.
        answers: That left, and were there afterwards.
        draws: By store.
        refused: Stores and populations that were put back, and refused.
        left: What was left for sure in the end, of everybody's.
        failed: What children said that ended by themselves.
        lost: What did not hold.
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
    """Kill `times` processes, three at a time after up to so many steps, and look after each."""
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
    """Wait until children have done so many steps."""
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
    """Put a store, or the population, back to an earlier time, which must be refused.

    Where no answer has left since, and nothing was drawn, it may open: nothing is tried then.
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
