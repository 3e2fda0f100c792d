"""The judge: observations of clients, the curator's export, and whether the promise fits both.

It imports no part of sparseq. Contributions of people are counted by DuckDB in the rows of the
history; prices and budgets are computed again, as fractions, from the promise in docs/guarantee.md:
rho of a person is the squared norm over 2 sigma², and never more than kappa in all.

Releases are numbered. The judge looks for states of the data (after some files of rows) that do not
go back as numbers grow, and under which each answer and its charges fit, within the time in which
it was asked. If there are none, it gives the reason, with the lines that show it.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb

UNITS = 2**24
"""Units of a ledger in a squared norm of 1."""
ROUNDED = Fraction(1, 2**10)
"""Most that a charge is rounded up by, in parts of it."""
FAR = 6.5
"""Noise beyond so many sigma: one value in 10^10."""
UNLIKELY = 6.0
"""Sigmas of a sum of squares of noise: one run in 10^9."""
RARE = 1e-6
"""Chance of so many intervals that miss."""
BITS = 50.0
"""Bits of noise that two answers don't have in common by chance."""
RULES = {
    "lost answer": "a client got an answer that the journal does not have",
    "two values": "an answer is not, bit by bit, that of the journal",
    "two answers": "one request, or one release, stands for two answers",
    "order": "an answer has an earlier number than one that was there before it was asked",
    "nobody asked": "the journal has an answer that no client asked for",
    "wrong answer": "an answer is further off than its noise can be",
    "not covered": "somebody paid less than an answer tells of them",
    "overcharged": "somebody paid for what was not in the data",
    "stale": "an answer lacks rows that were acknowledged before it was asked",
    "too early": "an answer has rows that were not sent yet",
    "noise twice": "two answers have the same noise",
    "noise": "the noise of all answers is not of the size that was said",
    "account": "what an account has spent is not its charges, or is more than its budget",
    "rows": "the store's rows are not those that were acknowledged",
    "quota": "more, or fewer, answers than a quota allows",
    "lost store": "the store does not open any more",
    "promise": "the store promises something else than in the beginning",
}
"""What can be found."""


@dataclass(frozen=True)
class Finding:
    """A contradiction.

    Attributes:
        rule: One of `RULES`.
        said: Description of the contradiction.
        lines: Numbers of the lines of the history that show it, from 1.
    """

    rule: str
    said: str
    lines: tuple[int, ...] = ()

    def __str__(self) -> str:
        at = f" (lines {', '.join(map(str, self.lines))})" if self.lines else ""
        return f"{self.rule}: {self.said}{at}"


@dataclass(frozen=True)
class Part:
    """One measure of a question, as a question to plain DuckDB.

    Attributes:
        column: Of the answer.
        keys: Columns of the answer that say which group a row is.
        each: SQL over t that returns person, keys and value: what each person adds.
    """

    column: str
    keys: tuple[str, ...]
    each: str


@dataclass
class Op:
    """A question that a client sent, or a file of rows; and the reply.

    Attributes:
        lines: Lines of the history with the message and with the reply.
        sent, back: Times, in seconds of one clock; back is infinite without a reply.
        said: The message.
        end: "answer", "brought", "refusal" or "lost"; "": no reply.
        got: The reply.
    """

    lines: tuple[int, ...]
    sent: float
    said: Mapping[str, Any]
    back: float = math.inf
    end: str = ""
    got: Mapping[str, Any] = field(default_factory=dict)

    @property
    def request(self) -> str | None:
        """Its name in the journal."""
        name: str | None = self.said.get("request")
        return name

    @property
    def new(self) -> bool:
        """It was answered, and not with what had been recorded before."""
        return self.end == "answer" and self.got.get("repeat") is False


@dataclass
class History:
    """All messages and replies.

    Attributes:
        promise: The store's first promise, and the quotas of names.
        asked: Questions, in the order of sending.
        brought: Files of rows, in the order of sending; the first is the initial data.
    """

    promise: Mapping[str, Any] = field(default_factory=dict)
    asked: list[Op] = field(default_factory=list)
    brought: list[Op] = field(default_factory=list)

    @classmethod
    def read(cls, lines: Iterable[str]) -> History:
        """Read JSON Lines.

        Raises:
            ValueError: A line is not one of a history.
        """
        history, open_ = cls(), dict[int, Op]()
        for number, line in enumerate(lines, 1):
            fact = json.loads(line)
            what = fact["what"]
            if what == "promise":
                history.promise = fact
            elif what in ("ask", "bring"):
                op = open_[fact["op"]] = Op((number,), fact["at"], fact)
                (history.asked if what == "ask" else history.brought).append(op)
            elif what in ("answer", "brought", "refusal", "lost"):
                op = open_.pop(fact["op"])
                op.lines, op.end, op.got = (*op.lines, number), what, fact
                op.back = math.inf if what == "lost" else fact["at"]
                if op.said["what"] == "bring" and what == "refusal":
                    history.brought.remove(op)
            elif what != "event":
                raise ValueError(f"line {number} is no line of a history: {what!r}")
        return history


class Rows:
    """The data after some files, counted by plain DuckDB."""

    def __init__(self, brought: Sequence[Op]) -> None:
        self._con = duckdb.connect()
        first = brought[0].said
        names = ", ".join(f"{name} {kind}" for name, kind in first["columns"].items())
        self._con.execute(f"CREATE TABLE every (state INTEGER, {names})")
        for state, op in enumerate(brought):
            rows = [[state, *row] for row in op.said["rows"]]
            places = ", ".join("?" * (len(first["columns"]) + 1))
            self._con.executemany(f"INSERT INTO every VALUES ({places})", rows)
        self._known: dict[tuple[str, int], list[tuple[Any, ...]]] = {}

    def ask(self, sql: str, state: int) -> list[tuple[Any, ...]]:
        """Return the rows of an answer over t, the data after file number `state`."""
        if (sql, state) not in self._known:
            self._con.execute(
                "CREATE OR REPLACE TEMP VIEW t AS "
                f"SELECT * EXCLUDE (state) FROM every WHERE state <= {int(state)}"
            )
            self._known[sql, state] = self._con.execute(sql).fetchall()
        return self._known[sql, state]


@dataclass
class Release:
    """An answer of the journal, and the history's data about it.

    Attributes:
        number, sigma, rows: As exported; a sigma for each part.
        scale: Largest full contribution of a person to each part; (): people are in or out.
        paid: Units that each person paid.
        ops: Questions that it may answer.
        told: Questions that received it.
        parts: Its measures.
        state: The file of rows after which it was computed; None: not known.
        noise: Noise and sigma of each value, if people are in or out.
        missed: True if a value is not in its interval, if people are weighted.
    """

    number: int
    sigma: tuple[float, ...]
    rows: list[Mapping[str, Any]]
    paid: dict[str, int]
    scale: tuple[float, ...] = ()
    ops: list[Op] = field(default_factory=list)
    told: list[Op] = field(default_factory=list)
    parts: tuple[Part, ...] = ()
    state: int | None = None
    noise: tuple[tuple[float, float], ...] = ()
    missed: bool = False

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of the history that show it."""
        return tuple(sorted({n for op in self.told or self.ops for n in op.lines}))

    @cached_property
    def sent(self) -> float:
        """The moment before which nobody had asked for it."""
        makers = [op for op in self.told if op.new] or self.ops
        return min(op.sent for op in makers)

    @cached_property
    def again(self) -> list[Op]:
        """Questions without a name that it was given to again."""
        return [op for op in self.told if op.request is None and not op.new]

    @cached_property
    def back(self) -> float:
        """The moment at which somebody had it."""
        return min((op.back for op in self.told), default=math.inf)


class Judge:
    """One judgement: a history against an export."""

    def __init__(self, history: History, export: Mapping[str, Any]) -> None:
        self.history, self.export = history, export
        self.findings: list[Finding] = []
        self.data = Rows(history.brought)
        course = export["budget"]["weighted"] or {}
        self.least_weight = Fraction(course.get("least_weight", 0))
        """Nobody counts for less than so much of a scale: public, where people are weighted."""
        paid: dict[int, dict[str, int]] = defaultdict(dict)
        for person in export["people"]:
            for charge in person["charges"]:
                of = paid[charge["release"]]
                of[person["person"]] = of.get(person["person"], 0) + charge["units"]
        self.releases = {
            one["release"]: Release(
                one["release"],
                tuple(one["sigma"]),
                one["rows"],
                paid[one["release"]],
                tuple(one["scale"]),
            )
            for one in export["releases"]
        }
        self._requests = {
            one["request"]: self.releases[one["release"]]
            for one in export["releases"]
            if one["request"] is not None
        }
        budget = history.promise
        self.unit = Fraction(budget["norm_budget"]) / (2 * Fraction(budget["kappa"])) * UNITS
        """Units that a squared norm costs at sigma 1."""

    def judge(self) -> list[Finding]:
        """Return what does not fit."""
        self._promise()
        self._journal()
        self._nobody_asked()
        self._order()
        self._quotas()
        self._accounts()
        self._states()
        self._repeats()
        self._rows()
        self._noise()
        return self.findings

    def _find(self, rule: str, said: str, lines: Iterable[int] = ()) -> None:
        assert rule in RULES
        self.findings.append(Finding(rule, said, tuple(lines)))

    # -- the journal ---------------------------------------------------------------------------

    def _promise(self) -> None:
        budget, promise = self.export["budget"], self.history.promise
        for name in ("kappa", "norm_budget"):
            if budget[name] != promise[name]:
                self._find("promise", f"{name} is {budget[name]}, and was {promise[name]}")
        if budget["losses"]:
            self._find("promise", f"the store has lost charges: {budget['losses']}")
        if sorted(self.releases) != list(range(1, len(self.releases) + 1)):
            self._find("promise", "the numbers of the journal's answers have gaps")

    def _journal(self) -> None:
        """Find each answer in the journal, and compare."""
        for op in self.history.asked:
            if op.request is not None and (release := self._requests.get(op.request)):
                release.ops.append(op)
                release.parts = _parts(op)
            if op.end != "answer":
                continue
            found = self._release_of(op)
            if found is None:
                self._find("lost answer", f"{_said(op)} is not in the journal", op.lines)
                continue
            if not op.got.get("follows"):
                if not _same(op.got["rows"], found.rows):
                    said = f"release {found.number} is {found.rows} in the journal"
                    self._find("two values", f"{said}, and was {op.got['rows']}", op.lines)
                found.told.append(op)
                found.parts = _parts(op)
                if op not in found.ops:
                    found.ops.append(op)

    def _release_of(self, op: Op) -> Release | None:
        """Return what an answer is in the journal; a protocol may tell no number."""
        number = op.got.get("release")
        if op.request is not None:
            named = self._requests.get(op.request)
            if named is not None and number not in (None, named.number):
                said = f"{op.request} is release {named.number} in the journal, and was {number}"
                self._find("two answers", said, op.lines)
            return named
        if number is not None:
            return self.releases.get(number)
        return next((r for r in self.releases.values() if _same(op.got["rows"], r.rows)), None)

    def _nobody_asked(self) -> None:
        """Compare releases that nobody received with the questions whose answers were lost."""
        texts = {
            one["release"]: one["query"] for one in self.export["releases"] if not one["request"]
        }
        lost = [op for op in self.history.asked if op.request is None and op.end in ("", "lost")]
        for release in self.releases.values():
            makers = [op for op in release.told if op.new and op.request is None]
            if len(makers) > 1:
                lines = [n for op in makers for n in op.lines]
                self._find("two answers", f"release {release.number} was new twice", lines)
            if not release.ops:
                release.ops = [op for op in lost if op.said["sql"] == texts.get(release.number)]
                release.parts = next((_parts(op) for op in release.ops), ())
            if not release.ops:
                self._find("nobody asked", f"release {release.number}")

    def _order(self) -> None:
        """Compare numbers with time: a release from before a question has a smaller number."""
        got = sorted((r.back, r.number) for r in self.releases.values() if r.told)
        news = sorted(
            (op.sent, r.number, op) for r in self.releases.values() for op in r.told if op.new
        )
        most, at = 0, 0
        for sent, number, op in news:
            while at < len(got) and got[at][0] < sent:
                most, at = max(most, got[at][1]), at + 1
            if number < most:
                lines = (*self.releases[most].lines, *op.lines)
                self._find("order", f"release {number} came after release {most}", lines)

    # -- accounts ------------------------------------------------------------------------------

    def _accounts(self) -> None:
        whole = math.floor(Fraction(self.history.promise["norm_budget"]) * UNITS)
        for person in self.export["people"]:
            name = person["person"]
            paid = sum(charge["units"] for charge in person["charges"])
            spent, budget = person["spent"], person["budget"]
            if paid != spent:
                self._find("account", f"{name} has spent {spent} units, and paid {paid}")
            if paid > budget or budget > whole:
                said = f"{name} paid {paid} units of a budget of {budget}; {whole} is promised"
                self._find("account", said)
            if unknown := {c["release"] for c in person["charges"]} - self.releases.keys():
                self._find("account", f"{name} paid for {sorted(unknown)}, which are not there")

    # -- states --------------------------------------------------------------------------------

    def _window(self, sent: float, back: float) -> range:
        """Return the states that the data may have had between two moments."""
        low = sum(op.back < sent for op in self.history.brought) - 1
        high = sum(op.sent < back for op in self.history.brought) - 1
        return range(max(low, 0), high + 1)

    def _states(self) -> None:
        """Find for each release a state under which all fits; they never go back."""
        now, spent = 0, defaultdict[str, int](int)
        for number in sorted(self.releases):
            release = self.releases[number]
            if not release.ops:
                continue
            window = self._window(release.sent, release.back)
            fits = [s for s in window if s >= now and not self._problems(release, s, spent)]
            if fits:  # the first under which it may be given again, if there is one
                again = max(
                    (self._window(op.sent, op.back).start for op in release.again), default=0
                )
                release.state = now = next((s for s in fits if s >= again), fits[0])
                release.noise = tuple(self._noise_of(release, now))
                held = ((low <= x <= high) for x, low, high in self._intervals(release, now))
                release.missed = not all(held)
            else:
                self._blame(release, window, now, spent)
            for person, units in release.paid.items():
                spent[person] += units

    def _blame(self, release: Release, window: range, now: int, spent: Mapping[str, int]) -> None:
        """Say why no state fits."""
        least = max(window.start, now)
        others = [s for s in range(len(self.history.brought)) if s not in window or s < now]
        for state in others:
            if not self._problems(release, state, spent):
                rule = "stale" if state < least else "too early"
                rows = self.history.brought[max(state, least)]
                said = f"release {release.number} is of the data after file {state}, not {least}"
                self._find(rule, said, (*rows.lines, *release.lines))
                return
        tries = [self._problems(release, s, spent) for s in window if s >= now] or [
            self._problems(release, least, spent)
        ]
        found = defaultdict[str, list[str]](list)
        for rule, said in min(tries, key=len):
            found[rule].append(said)
        for rule, (first, *more) in found.items():
            others = f", and {len(more)} like this" if more else ""
            self._find(rule, f"release {release.number}: {first}{others}", release.lines)

    def _added(self, release: Release, state: int) -> list[dict[tuple[str, ...], float]]:
        """Return what each person adds, for each part: (person, keys) to value."""
        return [
            {tuple(map(str, row[:-1])): row[-1] for row in self.data.ask(part.each, state)}
            for part in release.parts
        ]

    def _problems(
        self, release: Release, state: int, spent: Mapping[str, int]
    ) -> list[tuple[str, str]]:
        """Return what does not fit if a release is of this state of the data."""
        found = [*self._charges(release, state, spent)]
        for noise, sigma in self._noise_of(release, state):
            if abs(noise) > FAR * sigma + 1:
                found.append(("wrong answer", f"it is off by {noise:g}, sigma is {sigma:g}"))
        for truth, low, high in self._intervals(release, state):
            if not low - 2 * (high - low) <= truth <= high + 2 * (high - low):
                found.append(("wrong answer", f"{truth:g} is far from {low:g} to {high:g}"))
        return found

    def _costs(self, release: Release, state: int) -> dict[str, Fraction]:
        """Return a release's charge to each person in it, in units; weighted: lower bounds."""
        costs: dict[str, Fraction] = defaultdict(Fraction)
        for place, added in enumerate(self._added(release, state)):
            norms: dict[str, Fraction] = defaultdict(Fraction)
            for (person, *_), value in added.items():
                norms[person] += Fraction(value) ** 2
            for person, norm in norms.items():
                if release.scale:
                    most = (Fraction(release.scale[place]) * self.least_weight) ** 2
                    norm = min(norm, most) * (1 - ROUNDED)
                costs[person] += norm / Fraction(release.sigma[place]) ** 2 * self.unit
        return costs

    def _charges(
        self, release: Release, state: int, spent: Mapping[str, int]
    ) -> Iterator[tuple[str, str]]:
        costs = self._costs(release, state)
        budget = math.floor(Fraction(self.history.promise["norm_budget"]) * UNITS)
        for person in sorted(costs.keys() | release.paid.keys()):
            cost, paid = costs.get(person, Fraction()), release.paid.get(person, 0)
            most = cost * (1 + ROUNDED) + len(release.parts) + 1
            said = f"{person} paid {paid} units of {float(cost):.9g}"
            if paid == 0 and spent.get(person, 0) + most > budget and not release.scale:
                continue  # left out
            if paid < cost:
                yield "not covered", said
            elif paid > most and not release.scale:  # pilots cost people whom no WHERE has
                yield "overcharged", said

    def _cells(
        self, release: Release, state: int, everybody: bool
    ) -> Iterator[tuple[Mapping[str, Any], str, float, float]]:
        """Yield each value of an answer: row, column, truth about the people in it, and sigma."""
        for part, added, sigma in zip(
            release.parts, self._added(release, state), release.sigma, strict=True
        ):
            truth: dict[tuple[str, ...], float] = defaultdict(float)
            for (person, *keys), value in added.items():
                if everybody or release.paid.get(person, 0):
                    truth[tuple(keys)] += value
            for row in release.rows:
                yield row, part.column, truth[tuple(str(row[k]) for k in part.keys)], sigma

    def _noise_of(self, release: Release, state: int) -> Iterator[tuple[float, float]]:
        """Yield the noise of each value, and its sigma: people who paid nothing are not in it."""
        if not release.scale:
            for row, column, truth, sigma in self._cells(release, state, everybody=False):
                yield row[column] - truth, sigma

    def _intervals(self, release: Release, state: int) -> Iterator[tuple[float, float, float]]:
        """Yield the truth about everybody, and the interval, if people are weighted."""
        if release.scale:
            for row, column, truth, _ in self._cells(release, state, everybody=True):
                yield truth, row[f"{column}_low"], row[f"{column}_high"]

    def _repeats(self) -> None:
        """Compare repeated answers with the data of that moment: a name keeps its answer."""
        for release in self.releases.values():
            for op in release.again:
                window = self._window(op.sent, op.back)
                if release.state is not None and release.state < window.start:
                    rows = self.history.brought[window.start]
                    said = f"release {release.number}, of the data after file {release.state}"
                    lines = (*rows.lines, *op.lines)
                    self._find("stale", f"{said}, was given again after {window.start}", lines)

    def _rows(self) -> None:
        """Compare the rows of each person with those that were acknowledged."""
        count = "SELECT who, count(*) FROM t GROUP BY who"
        theirs = {p["person"]: p["rows"] for p in self.export["people"]}
        may = self._window(math.inf, math.inf)
        for state in may:
            if {str(who): n for who, n in self.data.ask(count, state)} == theirs:
                return
        self._find("rows", f"people's rows are not those after file {may.start}")

    # -- noise and quotas ----------------------------------------------------------------------

    def _noise(self) -> None:
        drawn = [r for r in self.releases.values() if r.noise]
        for one, other, bits in repeated([(r.number, *cell) for r in drawn for cell in r.noise]):
            said = f"releases {one} and {other}, or those before them, share {bits:.0f} bits"
            self._find(
                "noise twice", said, (*self.releases[one].lines, *self.releases[other].lines)
            )
        weighted = [r.missed for r in self.releases.values() if r.scale and r.state is not None]
        if _tail(len(weighted), sum(weighted)) < RARE:
            said = f"{sum(weighted)} of {len(weighted)} answers are not in their intervals"
            self._find("wrong answer", said)
        squares = [(noise / sigma) ** 2 for r in drawn for noise, sigma in r.noise]
        if squares:
            n = len(squares)
            third = 2 / (9 * n)  # Wilson and Hilferty 1931
            off = ((sum(squares) / n) ** (1 / 3) - (1 - third)) / math.sqrt(third)
            if abs(off) > UNLIKELY:
                size = math.sqrt(sum(squares) / n)
                self._find("noise", f"{n} values have {size:.3f} times the noise that was said")

    def _quotas(self) -> None:
        for name, most in self.history.promise["quotas"].items():
            asked = [op for op in self.history.asked if op.said["name"] == name]
            made = {r.number for r in self.releases.values() if any(o in asked for o in r.ops)}
            if len(made) > most:
                lines = sorted(n for op in asked for n in op.lines)
                self._find("quota", f"{name} has {len(made)} answers of {most}", lines)
            for op in asked:
                if op.end == "refusal" and op.got.get("why") == "quota":
                    tried = [o for o in asked if o.sent < op.back and o.end != "refusal"]
                    if len(tried) < most:
                        said = f"{name} was refused after {len(tried)} of {most}"
                        self._find("quota", said, op.lines)


def _parts(op: Op) -> tuple[Part, ...]:
    return tuple(Part(p["column"], tuple(p["keys"]), p["each"]) for p in op.said["parts"])


def _said(op: Op) -> str:
    return f"{op.got['rows']} to {op.request or op.said['sql']}"


def _same(seen: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a client's observation equals the record, bit by bit."""
    return len(seen) == len(rows) and all(
        name in there and here[name] == there[name]
        for here, there in zip(seen, rows, strict=True)
        for name in here
    )


def repeated(drawn: Sequence[tuple[int, float, float]]) -> Iterator[tuple[int, int, float]]:
    """Yield where noise comes again: the releases, and the bits that are the same in a row.

    Args:
        drawn: Release, noise and sigma of every value, as they were drawn.
    """
    unit = [(number, x / sigma, _step(x) / sigma) for number, x, sigma in drawn]
    for apart in range(1, len(unit)):
        bits = 0.0
        for (one, x, step), (other, y, wide) in zip(unit, unit[apart:], strict=False):
            step = max(step, wide)
            if abs(x - y) > step:
                bits = 0.0
                continue
            bits += max(-math.log2(step), 0.0)
            if bits >= BITS:
                yield one, other, bits
                bits = 0.0


def _tail(n: int, k: int) -> float:
    """Return the probability that k or more of n answers miss, each with probability 1/20."""
    return sum(math.comb(n, i) * 0.05**i * 0.95 ** (n - i) for i in range(k, n + 1))


def _step(x: float) -> float:
    """Return the lattice that a number is on: its last bit, or 1."""
    return 1 / min(Fraction(x).denominator, 2**30)


def judged(history: Path, export: Path) -> list[Finding]:
    """Return what does not fit between the two files."""
    with history.open(encoding="utf-8") as lines:
        read = History.read(lines)
    return findings(read, json.loads(export.read_text("utf-8")))


def findings(history: History, export: Mapping[str, Any]) -> list[Finding]:
    """Return what does not fit between a history and an export."""
    if "error" in export:
        return [Finding("lost store", export["error"])]
    return Judge(history, export).judge()
