"""The words of the command line: what several commands take, and how options were called before."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import sparseq
from sparseq.base.arguments import check_path
from sparseq.base.errors import ParameterError, StoreError, did_you_mean
from sparseq.base.texts import shown
from sparseq.cli.output import FORMATS
from sparseq.cli.text import say

if TYPE_CHECKING:
    from sparseq.store.store import Store

# -- `--config FILE` -------------------------------------------------------------------------------

Words = dict[str, click.Option]


def read_config(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    """Take the command's options from the file; what the command line says wins.

    Raises:
        ParameterError: The file can't be read, or no option or command has such a name.
    """
    if path is None:
        return
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
    """Return the command's name, after those of the groups that it is in."""
    return [*names_of(ctx.parent), str(ctx.command.name)] if ctx.parent is not None else []


def words_of(command: click.Command) -> Words:
    """Return a command's options by the words that a file has for them."""
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
    """Return a value as the command line would have it."""
    if isinstance(value, dict):
        value = [f"{k}={v}" for k, v in value.items()]
    if isinstance(value, list):
        return [str(v) for v in value] if option.nargs == 1 else value
    if isinstance(value, bool):
        return value
    return [str(value)] if option.multiple else str(value)


def _unknown(word: str, known: Any, path: Path) -> ParameterError:
    return ParameterError(f"{shown(path)}: there is no option {word!r}", did_you_mean(word, known))


# -- the words of the command line -----------------------------------------------------------------

Decorator = Callable[[Any], Any]
LAKE = "lake://"
"""Beginning of the address of a lake."""
ALARM_BELOW = "90%"
GOES = "the old name goes in 0.3"


class FormerName(NamedTuple):
    """An option that had another name, which goes in the next version.

    Attributes:
        now: The option.
        value: How its value is written; {} is the value that was given.
        alone: The value that was meant where none was given; None: a value is needed.
    """

    now: str
    value: str = "{}"
    alone: str | None = None


_OUT = {"--out": FormerName("--output")}
FORMER_NAMES = {
    "create": {
        "--watch-active": FormerName("--for", "questions,watch={}", "5%"),
        "--in-or-out": FormerName("--for", "questions,in-or-out", ""),
        "--halt": FormerName("--for", "questions,halt", ""),
        "--answers": FormerName("--for", "questions,answers={}"),
        "--norm-budget": FormerName("--for", "questions,counts={}"),
        "--keys-delta": FormerName("--for", "questions,keys-delta={}"),
        "--schema": FormerName("--type", "@{}"),
        "--multiline": FormerName("--csv", "multiline", ""),
        "--encoding": FormerName("--csv", "encoding={}"),
        "--null": FormerName("--csv", "null={}"),
    },
    "monitor": _OUT | {"--watch-active": FormerName("--alarm-below", alone=ALARM_BELOW)},
    "plan": {"--ticks": FormerName("--horizon")},
    "train": _OUT | {"--most": FormerName("--most", "steps={}")},
    "replay": _OUT,
    "derive": _OUT,
    "demo": _OUT,
}
"""By command."""


GONE = {
    "create": {
        "--delta": "--epsilon E,DELTA",
        "--lifetime-kappa": "--window WINDOW=KAPPA",
        "--least-budget": "--budget-column COL=LEAST",
        "--memory": "the environment's SPARSEQ_MEMORY",
        "--again": "each file once",
    }
}
"""Options that are said in another place now, by command."""


def of_today(command: str, args: list[str]) -> list[str]:
    """Return the arguments with today's names of options; what is replaced is noted on stderr.

    >>> of_today("monitor", ["a", "--alarm-below", "80%", "--quiet"])
    ['a', '--alarm-below', '80%', '--quiet']
    """
    former, waiting = FORMER_NAMES.get(command, {}), list(args)
    found: list[str] = []
    while waiting:
        arg = waiting.pop(0)
        name, equals, value = arg.partition("=")
        if arg == "--":
            return [*found, arg, *waiting]
        if name in GONE.get(command, {}):
            raise click.UsageError(f"{command} has no {name} any more. Say {GONE[command][name]}.")
        if name not in former:
            found.append(arg)
            continue
        now = former[name]
        if now.now == name and "=" in (value or "".join(waiting[:1])):
            found.append(arg)
            continue
        if not equals and now.alone is None:
            value = waiting.pop(0) if waiting else ""
        elif not equals:
            number = "{}" in now.value and waiting and waiting[0].replace(".", "", 1).isdecimal()
            value = waiting.pop(0) if number else str(now.alone)
        written = now.value.format(value)
        found += [now.now, written] if written else [now.now]
        example = f"{now.now} {written}" if now.value != "{}" and written else now.now
        say(f"{name} is now {example}; {GOES}", err=True)
    return found


class Command(click.Command):
    """A command whose options may stand in a file, and may have the names of an earlier version."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(
                ["--config"],
                type=FilePath(),
                metavar="FILE",
                is_eager=True,
                expose_value=False,
                callback=read_config,
                help="Take options from FILE, in TOML. The command line wins.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, by today's names."""
        return super().parse_args(ctx, of_today(str(self.name), args))


class Group(click.Group):
    """A group of such commands."""

    command_class = Command


class Share(click.FloatRange):
    """A share, as 5% or 0.05; what is above 1 was meant in percent, and is refused."""

    name = "share"

    def _describe_range(self) -> str:
        return ""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            self.fail(f"{value!r} is not a share. Write it as 5% or 0.05.", param, ctx)
        if not 0 <= share <= 1:
            text = f"{value!r} is {100 * share:g} %"
            text += f". Write {share:g}% or {share / 100:g}." if share > 0 else ""
            self.fail(text, param, ctx)
        return float(super().convert(share, param, ctx))


class NumberPair(click.ParamType[tuple[float, float]]):
    """Two numbers with a comma between, as 1,1e-6."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """Return the two."""
        if isinstance(value, tuple):
            return value
        first, comma, second = str(value).partition(",")
        try:
            return float(first), float(second)
        except ValueError:
            wrong = f"{value!r} is not two numbers" if comma else f"{value!r} is one number"
            self.fail(f"{wrong}. Write epsilon and its delta as 1,1e-6.", param, ctx)


class NameAndNumber(click.ParamType[str | tuple[str, float]]):
    """A name, and a number with it if there is one: month, or month=5."""

    name = "name"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | tuple[str, float]:
        """Return the name, or both."""
        name, equals, number = str(value).partition("=")
        try:
            return (name, float(number)) if equals else name
        except ValueError:
            self.fail(f"{number!r} is not a number. Write {name}, or {name}=5.", param, ctx)


def together(*options: Decorator) -> Decorator:
    """Return several options as one decorator."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class FilePath(click.Path):
    """The path of a file or a folder; options are those of `click.Path`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path.

        Raises:
            ParameterError: No file system has such a path.
        """
        check_path("a path" if param is None else str(param.human_readable_name), value)
        return super().convert(value, param, ctx)


class FileAndShare(FilePath):
    """A file, and a share with it if there is one: people.population=50%.

    Example:
        >>> FileAndShare().convert("people.population=50%", None, None)
        (PosixPath('people.population'), 0.5)
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, and the share or 1."""
        if isinstance(value, tuple):
            return value
        file, equals, share = str(value).rpartition("=")
        path = super().convert(file if equals else value, param, ctx)
        return path, Share().convert(share, param, ctx) if equals else 1.0


class StoreAddress(FilePath):
    """The place of a store: a path, or lake://FOLDER."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path.

        Raises:
            StoreError: There is no lake there.
        """
        path = str(value).removeprefix(LAKE)
        if path != str(value) and not Path(path, "lake.json").is_file():
            raise StoreError(f"there is no lake at {shown(value)}", "`sparseq create` makes one")
        return super().convert(path, param, ctx)


class NewStoreAddress(StoreAddress):
    """The place of a new store: of a lake the address as it was written."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or a lake's address."""
        return value if str(value).startswith(LAKE) else super().convert(value, param, ctx)


command = partial(click.command, cls=Command)
file_option = partial(click.option, type=FilePath(), metavar="FILE")
store_argument = click.argument("store", type=StoreAddress())
new_store_argument = click.argument("store", type=NewStoreAddress())
format_option = click.option(
    "--format",
    "format",
    type=click.Choice(FORMATS),
    help="Format of the answer. [default: by FILE's name, else table]",
)
facts_format_option = click.option(
    "--format",
    "format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Format of the output.",
)
list_format_option = click.option(
    "--format",
    "format",
    type=click.Choice(["table", "csv", "json"]),
    help="Format of the output. [default: by FILE's name, else table]",
)
output_option = file_option(
    "--output", "-o", help="Write to FILE, which appears whole or not at all."
)
series_output_option = file_option(
    "--output",
    "-o",
    help="Parquet, CSV or JSON Lines, by its name. [default: CSV on standard output]",
)
table_option = click.option("--table", metavar="NAME", help="Which table, if there are several.")
param_option = click.option(
    "--param", "params", multiple=True, metavar="K=V", help="Value of a parameter :K."
)
every_option = click.option(
    "--every", default="1d", show_default=True, metavar="1d|1h|1w", help="Length of a tick."
)
keys_option = click.option(
    "--keys",
    multiple=True,
    metavar="COL=a,b,c",
    help="Public values; COL=@FILE reads them. COL=@own: no value is of two people.",
)
bounds_option = click.option(
    "--bounds", multiple=True, metavar="COL=LOW..HIGH", help="Public bounds: numbers, or days."
)
dates_option = click.option(
    "--dates",
    multiple=True,
    metavar="dmy|mdy",
    help="How text has dates whose year is last: dmy if the day comes first (24/12/2025), mdy if "
    "the month does; COL=dmy of one column. [default: told by the first rows; refused where they "
    "fit both]",
)


def _limit_memory(ctx: click.Context, _: click.Parameter, size: str | None) -> None:
    """Say how much memory this command may take: to what it calls, and to processes it starts."""
    if size is None:
        return
    before = os.environ.get(MEMORY)
    os.environ[MEMORY] = size

    def restore() -> None:
        if before is None:
            del os.environ[MEMORY]
        else:
            os.environ[MEMORY] = before

    ctx.call_on_close(restore)


MEMORY = "SPARSEQ_MEMORY"
"""As in `sparseq.store._duckdb.file_backend`, which takes time to import."""
memory_option = click.option(
    "--memory",
    metavar="SIZE",
    expose_value=False,
    callback=_limit_memory,
    help="How much memory may be taken, such as 4GB. [default: SPARSEQ_MEMORY, or what there is]",
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")
seed_option = click.option(
    "--seed", type=int, help="Repeatable noise, for tests only: NOT private."
)


def open_store(path: Path) -> Store:
    """Open a store."""
    return sparseq.connect(path)
