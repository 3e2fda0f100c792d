"""What `make docs` does to pages: theorems and code are linked, both ways; commands are listed.

In a docstring `docs/theorems/watch.md` becomes a link to that page; on a theorem's page the name of
a public class or function, in backticks, becomes a link to the reference. `reference/commands.md`
gets every command and option, as the program has them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from posixpath import relpath
from typing import Any

import click
import griffe

from sparseq.cli.app import sparseq

ROOMS = (
    "sparseq",
    "sparseq.accounting",
    "sparseq.mechanisms",
    "sparseq.networks.sgd",
    "sparseq.series",
    "sparseq.training",
)
_CODE = re.compile(r"(?<![\[`])`([A-Za-z]\w+)(\([^`]*\))?`(?!\])")
_POWER = re.compile(r"(?<=[\w)])\*\*(?=[-(\w])")
_THEOREM = re.compile(r"docs/theorems/([\w-]+)\.md")
_COMMANDS = "<!-- commands -->"
_WEIGHT = {"theorems/": 0.1, "reference/": 0.2}
"""Of what experts look up, among what a search finds; all else has 1."""
_SEARCHED = {
    "README.md": "install pip",
    "privacy-level.md": "epsilon delta kappa mu level 4.89 choose",
    "households.md": "household family families privacy group",
    "several-stores.md": "composition",
    "loading.md": "csv excel json parquet date format encoding load file import xlsx title rows",
    "monitoring.md": "daily counts cron monitor every day",
    "serving.md": "server token serve https",
    "sql.md": "group grouped join median average sum count query select",
    "stores.md": "delete erase forget person store",
    "reference/commands.md": "list all options command cli tab completion bash zsh fish",
    "backup.md": "backup restore copy",
    "start.md": "quick start begin",
}
"""What people type who look for a page, by page; the theme's search weighs it most."""


def homes() -> dict[str, str]:
    """Return where the public names are defined, by name."""
    found = {}
    for room in ROOMS:
        module = import_module(room)
        for name in module.__all__:
            home = getattr(getattr(module, name, None), "__module__", None)
            if home:
                found[name] = f"{home}.{name}"
    return found


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link names of code on pages of theorems; list the commands on their page; weigh pages."""
    folder = page.file.src_uri.rpartition("/")[0] + "/"
    page.meta.setdefault("search", {"boost": _WEIGHT.get(folder, 1)})
    page.meta.setdefault("tags", _SEARCHED.get(page.file.src_uri, "").split())
    if _COMMANDS in markdown:
        return markdown.replace(_COMMANDS, "\n".join(described(sparseq, click.Context(sparseq))))
    if not page.file.src_uri.startswith("theorems/"):
        return markdown
    known = homes()

    def linked(found: re.Match[str]) -> str:
        name, call = found[1], found[2] or ""
        return f"[`{name}{call}`][{known[name]}]" if name in known else found[0]

    return _CODE.sub(linked, markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Link pages of theorems in docstrings."""
    here = page.file.dest_uri.rpartition("/")[0] or "."
    return _THEOREM.sub(
        lambda found: f'<a href="{relpath(f"theorems/{found[1]}.html", here)}">{found[0]}</a>', html
    )


def described(command: click.Command, ctx: click.Context, path: str = "sparseq") -> Iterator[str]:
    """Yield a command in Markdown, line by line, and after it the commands in it."""
    if path != "sparseq":
        yield f"## {path}\n"
        yield f"```sh\n{path} {' '.join(command.collect_usage_pieces(ctx))}\n```\n"
    yield from _help(command.help or "")
    found = [p for p in command.get_params(ctx) if isinstance(p, click.Option)]
    options = [record for p in found if (record := p.get_help_record(ctx))]
    yield from ["| option | meaning |", "|---|---|"] * bool(options)
    for words, meaning in options:
        yield f"| `{words}` | {_in_table(meaning)} |"
    yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            if inner is not None and not inner.hidden:
                within = click.Context(inner, parent=ctx, info_name=name)
                yield from described(inner, within, f"{path} {name}")


def _help(text: str) -> Iterator[str]:
    """Yield paragraphs; what is to stay as it is, examples, as a block of code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            first, _, rest = paragraph.removeprefix("\b\n").partition("\n")
            yield f"{first}\n\n```sh\n{inspect.cleandoc(rest)}\n```\n"
        else:
            yield paragraph.replace("<", "&lt;") + "\n"


def _in_table(text: str) -> str:
    """Return a text that stays in its cell, with words in capitals as they are."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


class Examples(griffe.Extension):
    """Show a docstring's `Example:` as the session that it is, and powers as powers."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Give the section the name that the parser knows; `2**-30` begins no bold text."""
        if obj.docstring:
            text = re.sub(r"(?m)^( *)Example:$", r"\1Examples:", obj.docstring.value)
            lines = (
                line if line.lstrip().startswith((">>>", "...")) else _POWER.sub(r"\*\*", line)
                for line in text.splitlines()
            )
            obj.docstring.value = "\n".join(lines)
