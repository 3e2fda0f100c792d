"""Verification of a ledger's whole past: its roots are recomputed from its releases."""

from __future__ import annotations

from sparseq.ledger.protocol import Ledger
from sparseq.ledger.root_chain import ROOTS, RootChain, changed_past


def check_past(ledger: Ledger) -> None:
    """Recompute the root of each release, and the roots of accounts.

    Raises:
        StoreError: A root differs: a question, an answer or a charge has been changed.
    """
    accounts = {row["release"]: row for row in ledger.notes(ROOTS).to_pylist()}
    chain, begun = RootChain(ledger.chain().key), False
    chain.follow(0, accounts.get(0))
    for release, parts in ledger.past():
        begun = begun or bool(release.root)
        if begun:
            hashes = tuple(one.hex() for one in chain.add(release, parts))
            if hashes != (release.sealed, release.root):
                raise changed_past(release.id)
        chain.follow(release.id, accounts.get(release.id))
