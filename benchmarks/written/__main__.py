"""Print how many questions are answered, of those that can be, by category."""

from __future__ import annotations

from collections import Counter

import click

from benchmarks.written import questions
from benchmarks.written.check import outcome
from benchmarks.written.town import plain, store


@click.command()
@click.option("--missing", is_flag=True, help="Show those that are not answered.")
@click.option("--only", default="", help="One category.")
def main(missing: bool, only: str) -> None:
    """Ask every question of the town's store, and plain DuckDB."""
    con, truth = store(found=True), plain()
    can, answered, never = Counter[str](), Counter[str](), Counter[str]()
    for question in questions():
        if only not in question.category:
            continue
        found = outcome(con, truth, question)
        answered[question.category] += found.kind == "answered" and not question.never
        can[question.category] += not question.never
        never[question.category] += bool(question.never)
        if missing and not question.never and found.kind != "answered":
            click.echo(f"{question.category}: {question.title}\n    {found.kind}: {found.said}")
            click.echo(f"    {found.hint}" if found.hint else "")
        if question.never and found.kind != "refused":
            click.echo(f"{question.category}: {question.title}: {found.kind}, which nobody can")
    for category, number in can.items():
        share = answered[category] / number
        click.echo(
            f"{category:14s} {answered[category]:3d} of {number:3d} {share:6.0%}"
            f"   {never[category]} that nobody can answer"
        )
    total, most = answered.total(), can.total()
    click.echo(f"{'all':14s} {total:3d} of {most:3d} {total / most:6.0%}   {never.total()}")


if __name__ == "__main__":
    main()
