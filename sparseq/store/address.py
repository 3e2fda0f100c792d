"""The address of a store: a file, or a folder of a kind that an extension offers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.base.extensions import STORES, offers

if TYPE_CHECKING:
    from sparseq.store.store_kind import StoreKind

_SCHEME = re.compile("[a-z]+://")
SERVED = ".served"
"""Suffix of the file next to a store that says where it is served; it exists while served."""
CONTROL = "control "
"""Prefix of that file's line with the address where the operator may ask the server."""


def kind_at(path: str | Path | None) -> tuple[StoreKind, Path] | None:
    """Return the kind and the folder of a store that an extension offers; None: it is a file.

    Raises:
        ParameterError: No extension that is installed has the scheme of the address.

    Example:
        >>> kind_at("lake://events")[1], kind_at("shop.sparseq")
        (PosixPath('events'), None)
    """
    if path is None:
        return None
    for offer in offers(STORES).values():
        kind: StoreKind = offer.load()
        if isinstance(path, str) and path.startswith(kind.scheme):
            return kind, Path(path.removeprefix(kind.scheme))
        if Path(path, kind.marker).is_file():
            return kind, Path(path)
    if scheme := _SCHEME.match(str(path)):
        raise ParameterError(
            f"no stores of {scheme[0]} are known here", did_you_mean(scheme[0], _schemes())
        )
    return None


def without_scheme(address: str) -> str:
    """Return the path of an address.

    >>> without_scheme("lake://events"), without_scheme("shop.sparseq")
    ('events', 'shop.sparseq')
    """
    scheme = next((scheme for scheme in _schemes() if address.startswith(scheme)), "")
    return address.removeprefix(scheme)


def address(path: str | Path | None) -> str:
    """Return the name of a store in messages, which any command accepts.

    >>> address("lake://events"), address(Path("shop.sparseq"))
    ('lake://events', 'shop.sparseq')
    """
    found = kind_at(path)
    return str(path or "memory") if found is None else f"{found[0].scheme}{found[1]}"


def _schemes() -> list[str]:
    return [offer.load().scheme for offer in offers(STORES).values()]


def served_at(path: Path) -> list[str]:
    """Return a server's lines about where it serves a store; empty: no server has it."""
    try:
        return path.with_name(path.name + SERVED).read_text("utf-8").splitlines()
    except OSError:
        return []
