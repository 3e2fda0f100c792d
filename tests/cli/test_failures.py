"""What goes wrong is one line and an exit code; every command is documented; starting is quick."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command_runs import output, run
from sampled import one_in

from sparseq import connect
from sparseq.base.errors import SparseqError, StoreInUse
from sparseq.cli import budget as budget_module
from sparseq.cli.app import COMMANDS, sparseq

ROOT = Path(__file__).parent.parent.parent


def commands(group: click.Group = sparseq, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def command_at(path: tuple[str, ...]) -> click.Command:
    command: click.Command = sparseq
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    for name, (_, about) in COMMANDS.items():
        assert command_at((name,)).get_short_help_str(300) == about


def examples(path: tuple[str, ...]) -> list[list[str]]:
    """The example command lines in a command's help; lines indented further belong to the last."""
    command = command_at(path)
    after = inspect.cleandoc(command.help or "").partition("Examples:")[2]
    joined = re.sub(r"\n {4,}", " ", after)
    lines = [line.strip() for line in joined.splitlines() if line.strip()]
    return [shlex.split(line.split(" < ")[0]) for line in lines]


@pytest.mark.parametrize("path", [*commands()], ids=" ".join)
def test_every_command_is_documented(path: tuple[str, ...]) -> None:
    command = command_at(path)
    assert command.help
    assert command.get_short_help_str()
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name
    assert examples(path)


@pytest.mark.parametrize("path", [*commands()], ids=" ".join)
def test_examples_parse(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()  # that lake://shop is one
    (tmp_path / "shop" / "lake.json").touch()
    monkeypatch.chdir(tmp_path)
    for name, *args in examples(path):
        assert name == "sparseq"
        context = sparseq.make_context("sparseq", list(args), resilient_parsing=False)
        command: click.Command = sparseq
        rest = list(args)
        while isinstance(command, click.Group):
            context = command.make_context(command.name, rest, parent=context)
            rest = [*context._protected_args, *context.args]
            name, command, rest = command.resolve_command(context, rest)
        assert command.make_context(name, rest, parent=context)


def test_help_lists_all_commands() -> None:
    text = output("--help")
    for path in commands():
        assert len(path) > 1 or path[0] in text


def test_version() -> None:
    assert re.fullmatch(r"sparseq \d+\.\d+\.\d+\S*\n", output("--version"))


def test_store_that_is_not_there() -> None:
    for args in (
        ["sql", "no.sparseq", "SELECT 1"],
        ["budget", "no.sparseq"],
        ["shell", "no.sparseq"],
    ):
        result = run(*args)
        assert (result.exit_code, result.stdout) == (4, "")
        assert result.stderr.startswith("sparseq: there is no store at no.sparseq\n  hint: ")


def test_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "x.sparseq").write_text("hello")
    result = run("budget", tmp_path / "x.sparseq")
    assert (result.exit_code, result.stderr.count("\n") <= 2) == (4, True)


@pytest.mark.parametrize(
    ("error", "code"),
    [(SparseqError("one\ntwo", "mend"), 1), (StoreInUse("busy"), 5)],
)
def test_own_errors_are_one_line(
    store: Path, monkeypatch: pytest.MonkeyPatch, error: SparseqError, code: int
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(budget_module, "budget_text", fail)
    result = run("budget", store)
    lines = result.stderr.splitlines()
    assert (result.exit_code, lines[0]) == (code, f"sparseq: {error.message}".replace("\n", " "))
    assert lines[1:] == ([f"  hint: {error.hint}"] if error.hint else [])


def test_unexpected_errors_do_not_say_what_they_saw(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("the amount of Ann is 0")

    monkeypatch.setattr(budget_module, "budget_text", fail)
    result = run("budget", store)
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stderr
    assert "Ann" not in result.output
    monkeypatch.setenv("SPARSEQ_DEBUG", "1")
    from click.testing import CliRunner

    assert isinstance(
        CliRunner().invoke(sparseq, ["budget", str(store)]).exception, ZeroDivisionError
    )


def test_interruption(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(budget_module, "budget_text", stop)
    assert run("budget", store).exit_code == 130


def test_no_color(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    args = ["budget", str(store)]
    assert "\x1b[" in CliRunner().invoke(sparseq, args, color=True).output
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in CliRunner().invoke(sparseq, args, color=True).output


# -- as a program ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program", one_in(2, [["-m", "sparseq"], [str(ROOT / "cli.py")]]), ids=["-m", "cli.py"]
)
def test_runs_as_a_program(program: list[str], store: Path) -> None:
    done = subprocess.run(
        [sys.executable, *program, "sql", store, "SELECT nonsense"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("sparseq: ")
    assert len(done.stderr.splitlines()) <= 2  # nothing from a library on its way out


def test_a_closed_pipe_is_no_error(store: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m sparseq shell {shlex.quote(str(store))}"
    done = subprocess.run(
        f"{command} | head -n 1",
        shell=True,
        input="\\?\n" * 3000,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert (done.stderr, done.stdout.count("\n")) == ("", 1)


def test_commands_import_nothing_heavy() -> None:
    code = (
        "import sys, types\n"
        "package = types.ModuleType('sparseq')\n"
        f"package.__path__ = [{str(ROOT / 'sparseq')!r}]\n"
        "sys.modules['sparseq'] = package\n"
        "import sparseq.cli.app\n"
        "heavy = {'duckdb', 'numpy', 'pyarrow', 'polars', 'scipy', 'sqlglot', 'prompt_toolkit'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("command", ["budget", "history"])
def test_reading_back_imports_nothing_slow(store: Path, command: str) -> None:
    """With an answer in the history, its ± needs SciPy's normal quantile."""
    with connect(store) as con:
        con.sql("SELECT count(*) AS n FROM visits")
    code = (
        "import sys\n"
        "from sparseq.cli.app import sparseq\n"
        f"sparseq([{command!r}, {str(store)!r}], standalone_mode=False)\n"
        "heavy = {'pandas', 'sqlglot', 'polars', 'mpmath', 'numba', 'matplotlib',\n"
        "         'pyarrow.compute', 'prompt_toolkit'}\n"
        f"heavy |= {{'scipy'}} if {command!r} == 'budget' else set()\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
