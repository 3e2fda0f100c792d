"""`sparseq purpose`: series that have a part of every budget for themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from sparseq.base.texts import json_text
from sparseq.cli.options import Group, Share, facts_format_option, open_store, store_argument
from sparseq.cli.text import course_text, label_lines, say
from sparseq.ledger.purposes import QUESTIONS, ROUNDED, Purpose, Questions, kept
from sparseq.pictures.tables import format_table, number, percent
from sparseq.store.store_promise import open_promise
from sparseq.stream.new_purpose import add_purpose

if TYPE_CHECKING:
    from sparseq.ledger.purposes import Purpose

# -- the text of a purpose on the command line: `daily_buyers=60%,ticks=546,counts=17` -------------


def _seen(text: str) -> tuple[float, float]:
    """Return the ends of LOW..HIGH."""
    low, _, high = text.partition("..")
    return float(low), float(high)


SERIES_WORDS = {
    "ticks": int,
    "counts": float,
    "forecast": Share(),
    "cap": Share(),
    "season": int,
    "off": float,
    "strategy": str,
    "left-out": Share(),
    "seen": _seen,
}
QUESTIONS_WORDS = {
    "answers": int,
    "counts": float,
    "in-or-out": None,
    "halt": None,
    "keys-delta": float,
    "watch": Share(),
}
"""Words of a purpose, each with what reads its value; None: it has none."""
_NEXT = re.compile(r",(?=\s*[a-z])")  # a strategy has numbers behind its commas


@dataclass(frozen=True)
class SaidPurpose:
    """The text of a purpose, read.

    Attributes:
        name: Of a series, or QUESTIONS.
        share: Of every budget; None: whatever the others leave.
        said: The rest, by its word in Python.
    """

    name: str
    share: float | None
    said: Mapping[str, Any]


class PurposeText(click.ParamType[SaidPurpose]):
    """A name, a share of every budget, and what else is said of the purpose.

    Example:
        >>> PurposeText().convert("buyers.sql=60%,ticks=90,strategy=news:0.1,7,1", None, None)
        SaidPurpose(name='buyers', share=0.6, said={'ticks': 90, 'strategy': 'news:0.1,7,1'})
        >>> PurposeText().convert("questions,in-or-out", None, None)
        SaidPurpose(name='questions', share=None, said={'in_or_out': True})
    """

    name = "purpose"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> SaidPurpose:
        """Return what is said."""
        if isinstance(value, SaidPurpose):
            return value
        of_questions = str(value).partition(",")[0].partition("=")[0].strip() == QUESTIONS
        first, *others = str(value).split(",") if of_questions else _NEXT.split(str(value))
        name, equals, share = (word.strip() for word in first.partition("="))
        name = PurePath(name).stem if name.endswith(".sql") else name
        words = QUESTIONS_WORDS if name == QUESTIONS else SERIES_WORDS
        if name == "watch":
            self.fail(
                f"watch is a part of questions. Write questions,watch={share or '5%'}.", param, ctx
            )
        if not equals and name != QUESTIONS:
            self.fail(
                f"{value!r} has no share. Write {name or 'visits'}=20%,ticks=365.", param, ctx
            )
        said: dict[str, Any] = {}
        for other in others:
            word, _, text = (part.strip() for part in other.partition("="))
            if word not in words:
                self.fail(
                    f"nothing is said of {name} by {word}. Known here: {', '.join(words)}.",
                    param,
                    ctx,
                )
            if (key := word.replace("-", "_")) in said:
                self.fail(f"{name} says {word} twice.", param, ctx)
            said[key] = self._value(words[word], word, text, param, ctx)
        if name != QUESTIONS and "ticks" not in said:
            self.fail(
                f"{name} has no end to plan for. Write {name}={share},ticks=365 for 365 days.",
                param,
                ctx,
            )
        return SaidPurpose(name, Share().convert(share, param, ctx) if equals else None, said)

    def _value(
        self,
        read: Any,
        word: str,
        text: str,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if read is None and text:
            self.fail(f"{word} takes no value: leave it out, or write {word} alone.", param, ctx)
        if read is None:
            return True
        try:
            return read.convert(text, param, ctx) if isinstance(read, Share) else read(text)
        except ValueError:
            kind = "a range: write seen=12..31" if read is _seen else "a number"
            self.fail(f"{word}={text} is not {kind}.", param, ctx)


def purpose_of(given: SaidPurpose) -> Purpose:
    """Return the purpose of a series.

    Raises:
        click.BadParameter: It is questions.
    """
    if given.name == QUESTIONS or given.share is None:
        raise click.BadParameter(
            f"{given.name} is no series, and has its part from the beginning: create --for "
            f"{given.name}=…"
        )
    return Purpose(given.name, given.share, **given.said)


def purposes_of(given: Sequence[SaidPurpose]) -> list[Purpose | Questions]:
    """Return the purposes of all `--for` together; of questions several may say something.

    Raises:
        click.BadParameter: Two say the same thing of questions.
    """
    series = [purpose_of(one) for one in given if one.name != QUESTIONS]
    share, said = None, dict[str, Any]()
    for one in given:
        if one.name != QUESTIONS:
            continue
        if said.keys() & one.said.keys() or (share is not None and one.share is not None):
            raise click.BadParameter(f"{QUESTIONS} say something twice", param_hint="--for")
        said |= one.said
        share = share if one.share is None else one.share
    return [*series, Questions(share, **said)]


def written(purpose: Purpose, share: str) -> str:
    """Return a purpose as it is written; shares with as many digits as they need.

    Example:
        >>> from sparseq.ledger.purposes import Purpose
        >>> written(Purpose("buyers", 0.6, 546, 16.85, forecast=0.05, cap=0.1), "60%")
        'buyers=60%,ticks=546,counts=16.85,forecast=5%,cap=10%,off=0.5'
    """
    p = purpose
    parts = [f"{p.name}={share}", f"ticks={p.ticks}"]
    parts += [f"counts={p.counts:g}"] * (abs(p.counts - p.ticks * ROUNDED) > 1e-6 * p.counts)
    if p.forecast:
        parts += [f"forecast={_percent(p.forecast)}", f"cap={_percent(p.cap)}"]
        parts += [f"season={p.season}"] * (p.season > 0) + [f"off={p.off:g}"]
    if p.strategy:
        parts.append(f"strategy={p.strategy}")
        parts += [f"left-out={_percent(p.left_out)}"] * (p.left_out > 0)
    parts += ["seen={:g}..{:g}".format(*p.seen)] * (p.seen[1] > 0)
    return ",".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.10g}%"


# -- `sparseq purpose`: series that have a part of every budget for themselves ---------------------


@click.group(cls=Group)
def purpose() -> None:
    """Give a series a part of every budget for itself.

    Whatever is asked beside such a series, it goes on as it was planned; and the other way round.

    \b
    Examples:
      sparseq purpose add shop.sparseq weekly=20%,ticks=104
      sparseq purpose list shop.sparseq
    """


@purpose.command(short_help="Give a series a part of what everybody has left for questions.")
@store_argument
@click.argument("series", type=PurposeText(), metavar="NAME=SHARE,ticks=N,…")
def add(store: Path, series: SaidPurpose) -> None:
    """Move SHARE of what each person has left for questions to the series NAME.

    NAME is the name of its query's file, without .sql. Everybody gives the same share of what that
    very person has left. `sparseq plan` says what to write after it.

    \b
    Examples:
      sparseq purpose add shop.sparseq weekly=20%,ticks=104
      sparseq purpose add shop.sparseq daily_buyers=30%,ticks=365,counts=17,forecast=5%,cap=10%
    """
    with open_store(store) as opened:
        before = opened.course_facts()
        added = add_purpose(opened.stream, purpose_of(series))
        after = opened.course_facts()
        noise = added.budget().sigma_0
    lines = [
        ("added", f"{added.name}: {percent(added.share)} of what everybody had left for questions"),
        ("noise", f"sigma {number(noise)} for a count of people, for {added.ticks:,} ticks"),
    ]
    if before is not None and after is not None:
        lines.append(("questions", course_text(after)))
    say(label_lines(lines))


@purpose.command("list", short_help="List the series that have a part of their own.")
@store_argument
@facts_format_option
def list_purposes(store: Path, format: str) -> None:
    """List the series of STORE that have a part of every budget: public facts.

    \b
    Examples:
      sparseq purpose list shop.sparseq
    """
    with open_promise(store) as promise:
        found = promise.purposes
    if format == "json":
        say(json_text(kept(found)))
        return
    if not found:
        say("all budgets are for questions")
        return
    columns = ["series", "kappa", "noise of a count", "made with"]
    say(format_table(columns, list(map(_row, found)), ["l", "r", "r", "l"]))


def _row(p: Purpose) -> list[str]:
    share = percent(p.share) if not p.came else f"{percent(p.share)} of what was left"
    return [p.name, number(p.kappa), number(p.budget().sigma_0), written(p, share)]
