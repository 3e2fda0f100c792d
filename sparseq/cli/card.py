"""`sparseq card`: a store as a deployment of differential privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import sparseq
from sparseq.base.errors import ParameterError
from sparseq.base.json_text import json_text
from sparseq.base.texts import shown
from sparseq.cli.options import (
    StoreAddress,
    check_one_place,
    command,
    output_option,
    server_option,
)
from sparseq.cli.output import Output
from sparseq.pictures.bounded_numbers import number, upper
from sparseq.store.store_promise import NOTES, open_promise

_TITLES = {
    "basic": "What is published",
    "dp_variant": "What is promised",
    "privacy_loss": "To whom, and how much",
    "deployment_model": "Whom one has to trust",
    "accounting": "How answers add up",
    "implementation": "How it is done",
    "so_far": "So far",
}


@command(short_help="Print a card to publish: what is promised to whom, and what was asked.")
@click.argument("store", type=StoreAddress(), required=False)
@server_option
@click.option(
    "--note",
    "notes",
    multiple=True,
    metavar="NAME=TEXT",
    help="What only you know: "
    + "; ".join(f"{k}: {v}" for k, v in NOTES.items())
    + ". Repeatable.",
)
@click.option(
    "--format",
    "format",
    type=click.Choice(["markdown", "json"]),
    default="markdown",
    show_default=True,
    help="Format of the card.",
)
@output_option
def card(
    store: Path | None,
    server: str | None,
    notes: tuple[str, ...],
    format: str,
    output: Path | None,
) -> None:
    """Print a deployment card of STORE: public facts, to publish with the answers.

    It has the parts of the registry of deployments (https://registry.opendp.org), and the facts
    that NIST asks for (SP 800-226): the protected unit, the level, the mechanism, the queries so
    far, and the exclusions.

    \b
    Examples:
      sparseq card shop.sparseq
      sparseq card shop.sparseq --note "curator=A shop" --note "use=weekly figures" -o card.md
      sparseq card shop.sparseq --format json
      sparseq card --server https://numbers.example.org -o card.md
    """
    check_one_place(store, server)
    said = dict(map(_note, notes))
    if server is not None:
        with sparseq.connect(server, token="") as remote:
            facts, name = remote.card(said), server
    else:
        path = Path(str(store))
        with open_promise(path) as promise:
            facts, name = promise.card(said), path.name
    with Output(output, format) as out:
        out.write(json_text(facts) if format == "json" else card_text(facts, name))


def _note(text: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise ParameterError(f"--note {shown(text)} is not NAME=TEXT", '--note "curator=A shop"')
    return name, value


def card_text(facts: dict[str, Any], name: str) -> str:
    """Return a card in Markdown; missing facts are left out."""
    title = facts["basic"]["name"] or name
    lines = [f"# Privacy card: {_in_cell(title)}"]
    for part, heading in _TITLES.items():
        rows = [(k.replace("_", " "), _value(k, v)) for k, v in facts[part].items() if _is_said(v)]
        lines += ["", f"## {heading}", "", "| | |", "|---|---|"]
        lines += [f"| {_in_cell(k)} | {_in_cell(v)} |" for k, v in rows]
    return "\n".join(lines)


def _is_said(value: Any) -> bool:
    return value not in (None, [], {}, 0.0) or value is False


def _value(name: str, value: Any) -> str:
    """Return a value of a card in words; an epsilon is rounded up."""
    if isinstance(value, dict):
        pairs = [(k, v) for k, v in value.items() if _is_said(v)]
        return ", ".join(f"{k.replace('_', ' ')} {_value(k, v)}" for k, v in pairs)
    if isinstance(value, list):
        return "; ".join(_value(name, v) for v in value)
    if name == "epsilon":
        return upper(value)
    if isinstance(value, float):
        return number(value) if value >= 1e-3 else f"{value:g}".replace("e-0", "e-")
    return str(value)


def _in_cell(text: str) -> str:
    return shown(text, None).replace("|", "\\|")
