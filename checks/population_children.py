"""Stores that draw on one population, and the child processes that use them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import sparseq
import sparseq.sql.select  # these are what every child would else import
import sparseq.store.create
import sparseq.stream.expected_width
import sparseq.stream.weighted_answer
from sparseq.ledger.pots import Pot

NAMES = ("a", "b", "c")
PEOPLE, KAPPA, MOST, SHARE = 40, 0.5, 0.3, 0.002
QUERY = "SELECT count(*) AS n FROM t"
ENDS = ("", ".wal", ".session")


def make(folder: Path) -> dict[str, Path]:
    """Create a population and its stores, which may draw more than there is; return marks."""
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
            [sys.executable, "-m", "checks.population_kills", "--serve"],
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
