"""Runs of commands in this process."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from sparseq.cli.app import sparseq


def run(*args: str | Path, input: str | None = None) -> Result:
    """Run a command in this process; `result.exception` is never anything but SystemExit."""
    result = CliRunner().invoke(sparseq, list(map(str, args)), input=input, prog_name="sparseq")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def output(*args: str | Path, input: str | None = None) -> str:
    """Run a command that succeeds; return what it wrote to standard output."""
    result = run(*args, input=input)
    assert result.exit_code == 0, result.stderr
    return result.stdout
