"""Options that several commands take, and the former names of options."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import sparseq
from sparseq.base.arguments import check_path
from sparseq.base.errors import StoreError
from sparseq.base.texts import shown
from sparseq.cli.output import FORMATS
from sparseq.cli.text import say
from sparseq.store.address import kind_at, without_scheme

if TYPE_CHECKING:
    from sparseq.store.store import Store
from sparseq.cli.config_file import read_config

Decorator = Callable[[Any], Any]
ALARM_BELOW = "90%"
GOES = "the old name goes in 0.3"


class FormerName(NamedTuple):
    """An option with a former name, which the next version removes.

    Attributes:
        now: The present option.
        value: The form of its value; {} is the given value.
        alone: The value if none was given; None: a value is needed.
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
"""Former names of options, by command."""


GONE = {
    "create": {
        "--delta": "--epsilon E,DELTA",
        "--lifetime-kappa": "--window WINDOW=KAPPA",
        "--least-budget": "--budget-column COL=LEAST",
        "--memory": "the environment's SPARSEQ_MEMORY",
        "--again": "each file once",
    }
}
"""Options that are now declared elsewhere, by command."""


def of_today(command: str, args: list[str]) -> list[str]:
    """Return the arguments with present option names; replacements are noted on stderr.

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
    """A command whose options may be in a file and may have their former names."""

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
        """Parse the arguments by their present names."""
        return super().parse_args(ctx, of_today(str(self.name), args))


class Group(click.Group):
    """A group of such commands."""

    command_class = Command


class Share(click.FloatRange):
    """A share, as 5% or 0.05; a number above 1 is refused, as it was meant in percent."""

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
    """Two numbers separated by a comma, as 1,1e-6."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """Return the two numbers."""
        if isinstance(value, tuple):
            return value
        first, comma, second = str(value).partition(",")
        try:
            return float(first), float(second)
        except ValueError:
            wrong = f"{value!r} is not two numbers" if comma else f"{value!r} is one number"
            self.fail(f"{wrong}. Write epsilon and its delta as 1,1e-6.", param, ctx)


class NameAndNumber(click.ParamType[str | tuple[str, float]]):
    """A name with an optional number: month, or month=5."""

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
    """A file with an optional share: people.population=50%.

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
    """The place of a store: a path, or an address such as lake://FOLDER."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path.

        Raises:
            StoreError: There is no such store.
        """
        path = without_scheme(str(value))
        if path != str(value) and kind_at(path) is None:
            raise StoreError(f"there is no lake at {shown(value)}", "`sparseq create` makes one")
        return super().convert(path, param, ctx)


class NewStoreAddress(StoreAddress):
    """The place of a new store: a path, or a lake's address as written."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or a lake's address."""
        has_scheme = without_scheme(str(value)) != str(value)
        return value if has_scheme else super().convert(value, param, ctx)


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
    metavar="[TABLE.]COL=a,b,c",
    help="Public values; COL=@FILE reads them. COL=@own: no value is of two people.",
)
bounds_option = click.option(
    "--bounds",
    multiple=True,
    metavar="[TABLE.]COL=LOW..HIGH",
    help="Public bounds: numbers, or days.",
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
    """Limit the memory of this command and of the processes that it starts."""
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
"""The same name as in `sparseq.store._duckdb.file_backend`, which takes time to import."""
memory_option = click.option(
    "--memory",
    metavar="SIZE",
    expose_value=False,
    callback=_limit_memory,
    help="How much memory may be taken, such as 4GB. [default: SPARSEQ_MEMORY, or what there is]",
)
server_option = click.option(
    "--server",
    metavar="URL",
    help="Ask the server there, with the token in SPARSEQ_TOKEN; then no STORE is given.",
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")
seed_option = click.option(
    "--seed", type=int, help="Repeatable noise, for tests only: NOT private."
)


def open_store(path: Path) -> Store:
    """Open a store."""
    return sparseq.connect(path)


def check_one_place(store: Path | str | None, server: str | None) -> None:
    """Raise `click.UsageError` unless either a store or a server is given."""
    if (store is None) == (server is None):
        raise click.UsageError("give a STORE, or a --server")
