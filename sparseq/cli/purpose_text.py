"""The text of a purpose on the command line: `daily_buyers=60%,ticks=546,counts=17`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from sparseq.cli.options import Share
from sparseq.ledger.purposes import QUESTIONS, ROUNDED, Purpose
from sparseq.ledger.question_settings import Questions

if TYPE_CHECKING:
    from sparseq.ledger.purposes import Purpose


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
"""Words of a purpose, each with the function that reads its value; None: it has no value."""
_NEXT = re.compile(r",(?=\s*[a-z])")  # a strategy has numbers after its commas


@dataclass(frozen=True)
class SaidPurpose:
    """The parsed text of a purpose.

    Attributes:
        name: The name of a series, or QUESTIONS.
        share: The share of every budget; None: the rest that the others leave.
        said: The other declarations, by their names in Python.
    """

    name: str
    share: float | None
    said: Mapping[str, Any]


class PurposeText(click.ParamType[SaidPurpose]):
    """A name, a share of every budget, and other declarations of the purpose.

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
        """Return the parsed text."""
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
        click.BadParameter: The purpose is questions.
    """
    if given.name == QUESTIONS or given.share is None:
        raise click.BadParameter(
            f"{given.name} is no series, and has its part from the beginning: create --for "
            f"{given.name}=…"
        )
    return Purpose(given.name, given.share, **given.said)


def purposes_of(given: Sequence[SaidPurpose]) -> list[Purpose | Questions]:
    """Return the purposes of all `--for` together; several may have declarations for questions.

    Raises:
        click.BadParameter: Two declare the same property of questions.
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
    """Return the text of a purpose; shares have the digits that they need.

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
