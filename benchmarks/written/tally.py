"""The number of questions that are answered, of those that can be, by category."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import click
import duckdb

import sparseq
from benchmarks.written import Question
from benchmarks.written.check import outcome


@dataclass
class Tally:
    """Counts outcomes by category.

    Attributes:
        missing: Show questions that are not answered.
    """

    missing: bool = False
    can: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    never: Counter[str] = field(default_factory=Counter)

    def ask(
        self, con: sparseq.Store, truth: duckdb.DuckDBPyConnection, asked: list[Question]
    ) -> None:
        """Ask questions of a store and of plain DuckDB, and count the outcomes."""
        for question in asked:
            found = outcome(con, truth, question)
            self.answered[question.category] += found.kind == "answered" and not question.never
            self.can[question.category] += not question.never
            self.never[question.category] += bool(question.never)
            if self.missing and not question.never and found.kind != "answered":
                click.echo(f"{question.category}: {question.title}\n    {found.kind}: {found.said}")
                click.echo(f"    {found.hint}" if found.hint else "")
            if question.never and found.kind != "refused":
                click.echo(f"{question.category}: {question.title}: {found.kind}, which nobody can")

    def show(self) -> None:
        """Print the counts."""
        for category, number in self.can.items():
            share = self.answered[category] / number
            click.echo(
                f"{category:14s} {self.answered[category]:3d} of {number:3d} {share:6.0%}"
                f"   {self.never[category]} that nobody can answer"
            )
        total, most = self.answered.total(), self.can.total()
        click.echo(
            f"{'all':14s} {total:3d} of {most:3d} {total / most:6.0%}   {self.never.total()}"
        )
