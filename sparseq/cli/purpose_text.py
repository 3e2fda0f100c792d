"""How a purpose is written on the command line: `daily_buyers=60%,ticks=546,counts=17`."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

import click

from sparseq.cli.options import Share
from sparseq.ledger.purposes import ROUNDED, Purpose

QUESTIONS, WATCH = "questions", "watch"
WORDS = {
    "ticks": int, "counts": float, "forecast": Share(), "cap": Share(), "fade": None,
    "season": int, "off": float, "strategy": str, "left-out": Share(),
}  # fmt: skip
"""What is said of a purpose, each with what reads its value; None: it has none."""
_NEXT = re.compile(rf",(?=\s*(?:{'|'.join(WORDS)})\b)")


class PurposeText(click.ParamType[tuple[str, float, dict[str, Any]]]):
    """A name, a share of every budget, and what else is said of the purpose.

    Example:
        >>> PurposeText().convert("buyers.sql=60%,ticks=90,strategy=news:0.1,7,1", None, None)
        ('buyers', 0.6, {'ticks': 90, 'strategy': 'news:0.1,7,1'})
    """

    name = "purpose"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float, dict[str, Any]]:
        """Return the three."""
        first, *others = _NEXT.split(str(value))
        name, equals, share = (word.strip() for word in first.partition("="))
        if not equals:
            self.fail(
                f"{value!r} has no share. Write {name or 'visits'}=20%,ticks=365.", param, ctx
            )
        name = PurePath(name).stem if name.endswith(".sql") else name
        said = {}
        for other in others:
            word, _, text = (part.strip() for part in other.partition("="))
            read, key = WORDS[word], word.replace("-", "_")
            if key in said:
                self.fail(f"{name} says {word} twice.", param, ctx)
            said[key] = self._value(read, word, text, param, ctx)
        if name in (QUESTIONS, WATCH) and said:
            self.fail(f"{name} has a share and nothing else. Write {name}=40%.", param, ctx)
        if name not in (QUESTIONS, WATCH) and "ticks" not in said:
            self.fail(
                f"{name} has no end to plan for. Write {name}={share},ticks=365 for 365 days.",
                param, ctx,
            )  # fmt: skip
        return name, Share().convert(share, param, ctx), said

    def _value(
        self, read: Any, word: str, text: str, param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # fmt: skip
        if read is None and text:
            self.fail(f"{word} takes no value: leave it out, or write {word} alone.", param, ctx)
        if read is None:
            return True
        try:
            return read.convert(text, param, ctx) if isinstance(read, Share) else read(text)
        except ValueError:
            self.fail(f"{word}={text} is not a number.", param, ctx)


def purpose_of(given: tuple[str, float, dict[str, Any]]) -> Purpose:
    """Return the purpose of a series."""
    name, share, said = given
    if name in (QUESTIONS, WATCH):
        raise click.BadParameter(
            f"{name} is no series, and has its part from the beginning: create --for {name}=…"
        )
    return Purpose(name, share, **said)


def parted(
    given: tuple[tuple[str, float, dict[str, Any]], ...],
) -> tuple[list[Purpose], dict[str, float]]:
    """Return the series, and the shares of what is set aside, of all `--for` together.

    Raises:
        click.BadParameter: A share of questions is said, and not all is shared out.
    """
    series = [purpose_of(one) for one in given if one[0] not in (QUESTIONS, WATCH)]
    aside = {name: share for name, share, _ in given if name == WATCH}
    for name in (QUESTIONS, WATCH):
        if [one[0] for one in given].count(name) > 1:
            raise click.BadParameter(f"{name} has two shares", param_hint="--for")
    asked = [share for name, share, _ in given if name == QUESTIONS]
    whole = sum(asked) + sum(p.share for p in series) + sum(aside.values())
    if asked and abs(whole - 1) > 1e-9:
        raise click.BadParameter(
            f"the shares add up to {whole:.4g}, and have to be 100% where {QUESTIONS} has one; "
            f"without it, {QUESTIONS} has the rest",
            param_hint="--for",
        )
    return series, aside


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
        parts += ["fade"] * p.fade + [f"season={p.season}"] * (p.season > 0) + [f"off={p.off:g}"]
    if p.strategy:
        parts.append(f"strategy={p.strategy}")
        parts += [f"left-out={_percent(p.left_out)}"] * (p.left_out > 0)
    return ",".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.10g}%"
