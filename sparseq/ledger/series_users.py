"""Users included in a series that charges them in later ticks, and the budget they hold: private.

    series_taken    the contributions with which users were included, by tick and coordinate, and
                    the budget that they hold from then on, in ledger units. Ticks are in blocks, as
                    long as the series continues to charge, so the last two contain all that counts.

A note is written in the transaction of its tick's release. The held amount only decreases until a
user is included again: so the newest note of each user is enough, and mostly slightly too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.notes import USER, Fact, NoteRows, NoteTable
from sparseq.ledger.protocol import Ledger

if TYPE_CHECKING:
    from sparseq.ledger.accounts import Index, Ints
    from sparseq.ledger.notes import NoteTable

TAKEN = NoteTable(
    "series_taken",
    {
        "series": "VARCHAR",
        "block": "BIGINT",
        "tick": "BIGINT",
        USER: "INTEGER",
        "coordinate": "INTEGER",
        "steps": "BIGINT",
        "held": "BIGINT",
    },
)
_BLOCKS, _FORGOTTEN = "series_blocks", "series_forgotten"


def block_of(tick: int, band: int) -> int:
    """Return the block of a tick of a series that charges for `band` more ticks."""
    return tick // (band + 1)


def taken(ledger: Ledger, series: str, block: int) -> pa.Table:
    """Return the notes of a block and the block before, by tick, user and coordinate."""
    parts = [ledger.notes(TAKEN, series=series, block=b) for b in (block - 1, block)]
    order = [(name, "ascending") for name in ("tick", USER, "coordinate")]
    return pa.concat_tables(parts).sort_by(order)


def remember(
    ledger: Ledger, series: str, tick: int, band: int, cells: tuple[Index, Index, Ints], held: Ints
) -> Sequence[NoteRows | Fact]:
    """Return the notes that record the users whom a tick includes.

    Args:
        ledger: The ledger that gets the notes.
        series, tick, band: See the module.
        cells: Users, coordinates and steps.
        held: The amount that the user of each cell holds from now on.
    """
    users, coordinates, steps = cells
    block = block_of(tick, band)
    rows = TAKEN.rows(
        series=series,
        block=block,
        tick=tick,
        coordinate=coordinates,
        steps=steps,
        held=held,
        **{USER: users},
    )
    blocks: Mapping[str, int] = ledger.fact(_BLOCKS) or {}
    if blocks.get(series) == block:
        return [rows]
    return [rows, Fact(_BLOCKS, {**blocks, series: block})]


def held(ledger: Ledger) -> Iterator[tuple[str, Index, Ints]]:
    """Yield each series with the users who hold budget for it, ascending, and the amounts."""
    for series, block in (ledger.fact(_BLOCKS) or {}).items():
        notes = taken(ledger, series, block)
        users, units = notes[USER].to_numpy(), notes["held"].to_numpy()
        people, newest = np.unique(users[::-1], return_index=True)
        yield series, people.astype(np.int32), units[::-1][newest].astype(np.int64)


def forget_taken(ledger: Ledger, users: Sequence[int]) -> None:
    """Erase the records of some users, in a transaction of the caller."""

    def of_others(batch: pa.RecordBatch) -> pa.RecordBatch:
        whose = batch[USER].to_numpy(zero_copy_only=False)
        return batch.filter(pa.array(~np.isin(whose, users)))

    ledger.rewrite(TAKEN, of_others)
    ledger.write(Fact(_FORGOTTEN, forgotten(ledger) + 1))


def forgotten(ledger: Ledger) -> int:
    """Return the number of erasures so far: public."""
    return int(ledger.fact(_FORGOTTEN) or 0)
