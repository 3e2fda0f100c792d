"""The registry of extensions: each offers objects to the core, and the core imports none of them.

An extension is a folder of `sparseq` with a module `extension`. Its `OFFERS` name, by group, what
the extension adds; an object is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

COMMANDS = "commands"
"""Subcommands of the command line, by name."""
STORES = "stores"
"""Kinds of stores (`sparseq.store.store_kind.StoreKind`), by the scheme of their addresses."""
LISTENERS = "listeners"
"""Protocols that a server speaks in addition to HTTP, by name."""
MODELS = "models"
"""Kinds of models that `sparseq train` can train in addition to the closed forms."""
SERVED = "served"
"""Functions for a store that a server has: `backup`, `tell_losses`."""


@dataclass(frozen=True)
class Offer:
    """An object of an extension.

    Attributes:
        module: The full name of its module.
        name: Its name there; "": the module itself.
        about: One line for users.
    """

    module: str
    name: str = ""
    about: str = ""

    def load(self) -> Any:
        """Import the object."""
        module = import_module(self.module)
        return getattr(module, self.name) if self.name else module


def offers(group: str) -> Mapping[str, Offer]:
    """Return the offers of all extensions in a group, by name.

    Example:
        >>> offers("no such group")
        {}
    """
    return _found().get(group, {})


@cache
def _found() -> Mapping[str, Mapping[str, Offer]]:
    """Return all offers, by group and name, of the extensions in alphabetical order."""
    found: dict[str, dict[str, Offer]] = {}
    for path in sorted(Path(__file__).parent.parent.glob("*/extension.py")):
        extension = import_module(f"sparseq.{path.parent.name}.extension")
        for group, offered in extension.OFFERS.items():
            found.setdefault(group, {}).update(offered)
    return found
