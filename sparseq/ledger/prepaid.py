"""People taken in to a series that goes on charging them, and what they hold back: private.

    series_taken    what people were taken in with, tick by tick and coordinate by coordinate, and
                    what they hold back from then on, in ledger units. Ticks are in blocks, as long
                    as the series goes on charging, so that the last two have all that counts.

A note is written in the transaction of its tick's release. What is held back only gets less until a
person is taken in again: so the newest note of each is enough, and mostly a little more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.notes import USER, Fact, NoteRows, NoteTable
from sparseq.ledger.protocol import Ledger

TAKEN = NoteTable(
    "series_taken",
    {"series": "VARCHAR", "block": "BIGINT", "tick": "BIGINT", USER: "INTEGER",
     "coordinate": "INTEGER", "steps": "BIGINT", "held": "BIGINT"},
)  # fmt: skip
_BLOCKS, _FORGOTTEN = "series_blocks", "series_forgotten"


def block_of(tick: int, band: int) -> int:
    """Return the block of a tick of a series that goes on charging for `band` ticks."""
    return tick // (band + 1)


def taken(ledger: Ledger, series: str, block: int) -> pa.Table:
    """Return the notes of a block and the one before it, by tick, person and coordinate."""
    parts = [ledger.notes(TAKEN, series=series, block=b) for b in (block - 1, block)]
    order = [(name, "ascending") for name in ("tick", USER, "coordinate")]
    return pa.concat_tables(parts).sort_by(order)


def remember(
    ledger: Ledger, series: str, tick: int, band: int, cells: tuple[Index, Index, Ints], held: Ints
) -> Sequence[NoteRows | Fact]:
    """Return what writes whom a tick takes in.

    Args:
        ledger: Where it goes.
        series, tick, band: See the module.
        cells: Person, coordinate, steps.
        held: What the person of each cell holds back from now on.
    """
    users, coordinates, steps = cells
    block = block_of(tick, band)
    rows = TAKEN.rows(series=series, block=block, tick=tick, coordinate=coordinates, steps=steps,
                      held=held, **{USER: users})  # fmt: skip
    blocks: Mapping[str, int] = ledger.fact(_BLOCKS) or {}
    if blocks.get(series) == block:
        return [rows]
    return [rows, Fact(_BLOCKS, {**blocks, series: block})]


def held(ledger: Ledger) -> Iterator[tuple[str, Index, Ints]]:
    """Yield each series with who holds how much back for it, ascending."""
    for series, block in (ledger.fact(_BLOCKS) or {}).items():
        notes = taken(ledger, series, block)
        users, units = notes[USER].to_numpy(), notes["held"].to_numpy()
        people, newest = np.unique(users[::-1], return_index=True)
        yield series, people.astype(np.int32), units[::-1][newest].astype(np.int64)


def forget_taken(ledger: Ledger, users: Sequence[int]) -> None:
    """Erase what some people were taken in with, in a transaction of the caller."""

    def of_others(batch: pa.RecordBatch) -> pa.RecordBatch:
        whose = batch[USER].to_numpy(zero_copy_only=False)
        return batch.filter(pa.array(~np.isin(whose, users)))

    ledger.rewrite(TAKEN, of_others)
    ledger.write(Fact(_FORGOTTEN, forgotten(ledger) + 1))


def forgotten(ledger: Ledger) -> int:
    """Return how often somebody was erased: public."""
    return int(ledger.fact(_FORGOTTEN) or 0)
