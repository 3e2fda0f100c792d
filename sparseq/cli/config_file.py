"""Options from a file: `--config FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.base.texts import shown

if TYPE_CHECKING:
    pass


Words = dict[str, click.Option]


def read_config(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    """Take the command's options from the file; the command line takes precedence.

    Raises:
        ParameterError: The file can't be read, or no option or command has such a name.
    """
    if path is None:
        return
    import tomllib

    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ParameterError(f"can't read {shown(path)}: {why}", "write it in TOML") from None
    words, table, here = words_of(ctx.command), content, ctx.find_root().command
    found: dict[str, Any] = {}
    for name in names_of(ctx):
        assert isinstance(here, click.Group)
        inner = here.list_commands(ctx)
        values = {k: v for k, v in table.items() if k not in inner}
        everywhere = all_words(here, ctx) if set(values) - set(words) else set(words)
        for unknown in sorted(set(values) - everywhere):
            raise _unknown(unknown, {*everywhere, *inner}, path)
        found |= {k: v for k, v in values.items() if k in words}
        command = here.get_command(ctx, name)
        assert command is not None
        table, here = table.get(name, {}), command
        if not isinstance(table, dict):
            raise ParameterError(f"{shown(path)}: {name} is a command", f"write [{name}]")
    for unknown in sorted(set(table) - set(words)):
        raise _unknown(unknown, words, path)
    ctx.default_map = {str(words[k].name): _given(words[k], v) for k, v in (found | table).items()}


def names_of(ctx: click.Context) -> list[str]:
    """Return the command's name, after the names of its groups."""
    return [*names_of(ctx.parent), str(ctx.command.name)] if ctx.parent is not None else []


def words_of(command: click.Command) -> Words:
    """Return a command's options by their words in a file."""
    options = [p for p in command.params if isinstance(p, click.Option) and p.name != "config"]
    return {word[2:]: option for option in options for word in option.opts if word[:2] == "--"}


def all_words(group: click.Group, ctx: click.Context) -> set[str]:
    """Return the words of all commands of a group, and of the groups in it."""
    words: set[str] = set()
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        words |= set(words_of(command))
        words |= all_words(command, ctx) if isinstance(command, click.Group) else set()
    return words


def _given(option: click.Option, value: Any) -> Any:
    """Return a value in the form of the command line."""
    if isinstance(value, dict):
        value = [f"{k}={v}" for k, v in value.items()]
    if isinstance(value, list):
        return [str(v) for v in value] if option.nargs == 1 else value
    if isinstance(value, bool):
        return value
    return [str(value)] if option.multiple else str(value)


def _unknown(word: str, known: Any, path: Path) -> ParameterError:
    return ParameterError(f"{shown(path)}: there is no option {word!r}", did_you_mean(word, known))
