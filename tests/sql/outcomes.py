"""Outcomes of questions that people wrote, in a file: what was answered and is not shows there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb

import sparseq
from benchmarks.written import Question
from benchmarks.written.check import outcome
from sparseq.base.errors import without_query

OwnNames = Callable[[sparseq.Store, str, str], bool]


def line(
    con: sparseq.Store, truth: duckdb.DuckDBPyConnection, question: Question, own_names: OwnNames
) -> list[str]:
    """Return the lines about a question: answered as by plain DuckDB, or the refusal.

    A query that a hint offers as the same is answered so too; another question has other names.
    """
    found = outcome(con, truth, question)
    _, offered, same = without_query(found.hint)
    if offered and same:
        assert outcome(con, truth, question, offered).kind == "answered", offered
    elif offered:
        assert own_names(con, question.sql, offered), offered
    said = f"{found.said} ({found.hint})" if found.hint else found.said
    if question.never:
        return [f"{question.title}: never, as {question.never}", f"    {found.kind}: {said}"]
    if found.kind == "answered":
        return [f"{question.title}: answered"]
    return [f"{question.title}: not yet", f"    {found.kind}: {said}"]


def text_of(told: Sequence[tuple[Question, list[str]]]) -> str:
    """Return a file's text, with a heading for each category."""
    lines: list[str] = []
    for question, about in told:
        heading = f"# {question.category}"
        lines += [*([] if heading in lines else ["", heading]), *about]
    return "\n".join(lines).strip() + "\n"


def recorded(golden: Path, questions: Sequence[Question], step: int) -> str:
    """Return what a file has of the first question and of each `step`-th after it."""
    entries: list[list[str]] = []
    for row in golden.read_text().splitlines():
        if row.startswith("    "):
            entries[-1].append(row)
        elif row and not row.startswith("# "):
            entries.append([row])
    told = list(zip(questions, entries, strict=True))
    for question, about in told:
        assert about[0].startswith(f"{question.title}: ")
    return text_of(told[::step])
