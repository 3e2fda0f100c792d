"""Faults that others reported of other libraries: of values, of prices, of noise, and of books.

Source of the last: Cebere et al. (2026), "Privacy in Theory, Bugs in Practice", arXiv 2602.17454
(dp-recorder).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

import sparseq.engine._duckdb.reader
import sparseq.stream.released_parts
import sparseq.stream.step
from checks.audit.planting import Leak, put, reduced
from sparseq.engine._duckdb.reader import Reader
from sparseq.ledger._duckdb.ledger import DuckLedger
from sparseq.ledger.accounts import Accounts


def _sql_changed(change: Any) -> AbstractContextManager[None]:
    fetch = Reader.fetch
    return put(Reader, "fetch", lambda r, sql, *rest, **more: fetch(r, change(sql), *rest, **more))


_CUT = re.compile(
    r"""least\(greatest\(("t"\."\w+"), ([^()]+|CAST\([^()]+\))\), """
    r"""([^()]+|CAST\([^()]+\))\)"""
)


def cut_to_null() -> AbstractContextManager[None]:
    """Values beyond their bounds become NULL."""
    form = r"CASE WHEN \1 BETWEEN \2 AND \3 THEN \1 END"
    return _sql_changed(lambda sql: _CUT.sub(form, sql))


def fill_with_nan() -> AbstractContextManager[None]:
    """A value that is not a number, filled in after values were cut, spoils the sum it is in."""
    place = sparseq.engine._duckdb.reader
    right = place.quantise

    def spoiled(values: Any, *rest: Any) -> Any:
        found = right(values, *rest)
        if values.dtype.kind == "f" and np.isnan(values).any():
            found[:] = 0
        return found

    return put(place, "quantise", spoiled)


def codes_by_row_order() -> AbstractContextManager[None]:
    """A group has the place of the first row that is in it, and not that of its key."""

    def in_order(reduce: Any, runs: Any, places: Any, values: Any, *rest: Any) -> Any:
        if places is not None and len(places):
            _, first, code = np.unique(places, return_index=True, return_inverse=True)
            rank = np.argsort(np.argsort(first))
            places = np.sort(np.unique(places))[rank[code]].astype(places.dtype)
        return reduce(runs, places, values, *rest)

    return reduced(in_order)


def half_of_what_is_due() -> AbstractContextManager[None]:
    """Norms are those of rows that are replaced, at half of what rows cost that are added."""

    def halved(reduce: Any, *args: Any) -> Any:
        reduced = reduce(*args)
        return replace(reduced, norms=reduced.norms // 2)

    return reduced(halved)


def noise_of_another() -> AbstractContextManager[None]:
    """The answers of a question are paired with the noise of each other."""
    place = sparseq.stream.step
    add = place.add_gaussian

    def paired(plan: Any, sums: Sequence[Any], entropy: Any) -> Any:
        return add(replace(plan, noise=plan.noise[::-1]), sums, entropy)

    return put(place, "add_gaussian", paired)


@contextlib.contextmanager
def noise_used_again() -> Iterator[None]:
    """Noise of one size is drawn once."""
    drawn: dict[tuple[float, int], Any] = {}
    draw = sparseq.stream.step.rounded_gaussian

    def again(sigma: float, size: int, *rest: Any) -> Any:
        if (sigma, size) not in drawn:
            drawn[sigma, size] = draw(sigma, size, *rest)
        return drawn[sigma, size].copy()

    with contextlib.ExitStack() as stack:
        for place in (sparseq.stream.step, sparseq.stream.released_parts):
            stack.enter_context(put(place, "rounded_gaussian", again))
        yield


def _committed(change: Any) -> AbstractContextManager[None]:
    """Change the entries of the journal; `change` gets the entries of one transaction."""
    commit = DuckLedger.commit
    return put(DuckLedger, "commit", lambda ledger, entries: commit(ledger, change(entries)))


def charge_of_another() -> AbstractContextManager[None]:
    """Charges of questions that are asked together are recorded under each other's release."""

    def turned(entries: Sequence[Any]) -> list[Any]:
        last = [*entries[1:], *entries[:1]]
        return [
            replace(one, users=other.users, charges=other.charges)
            for one, other in zip(entries, last, strict=True)
        ]

    return _committed(turned)


def charge_not_recorded() -> AbstractContextManager[None]:
    """The charges of one person in three are not in the journal."""

    def less(entries: Sequence[Any]) -> list[Any]:
        return [replace(one, charges=one.charges * (one.users % 3 != 0)) for one in entries]

    return _committed(less)


def release_not_recorded() -> AbstractContextManager[None]:
    """A release is answered and charged, but the journal has no line of it."""
    commit = DuckLedger.commit

    def forgetful(ledger: Any, entries: Sequence[Any]) -> None:
        commit(ledger, entries)
        for table in ("release_1",):
            ledger._con.execute(f"DELETE FROM ledger.{table} WHERE id = {entries[-1].release.id}")

    return put(DuckLedger, "commit", forgetful)


def charge_not_booked() -> AbstractContextManager[None]:
    """Accounts do not grow by the charges of the first person in a release."""
    right = Accounts.charge
    return put(
        Accounts, "charge", lambda accounts, users, charges: right(accounts, users[1:], charges[1:])
    )


_MANY = (
    "SELECT k, count(*) AS a0, sum(least(greatest(n, 0), 1000)) AS a1 FROM t "
    "WHERE k BETWEEN 0 AND 99 GROUP BY k"
)
_COUNT = "SELECT count(*) AS a0 FROM t"
_FILLED = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => 100) "
    "sum(coalesce(nullif(least(greatest(x, 0), 99), 99), CAST('NaN' AS DOUBLE))) AS a0 FROM t"
)
PLANTED = (
    Leak(
        "a fill with NaN after a cut",
        fill_with_nan,
        (_FILLED,),
        ("charges of others", "own charge", "own contribution"),
    ),
    Leak("a cut that makes NULLs", cut_to_null, (), ("another sum",), life="meanings"),
    Leak(
        "codes by the order of rows",
        codes_by_row_order,
        ("SELECT k, count(*) AS a0 FROM t WHERE k IN (0, 1, 2, 77) GROUP BY k",),
        ("own contribution",),
    ),
    Leak(
        "half of what is due, as if rows were replaced",
        half_of_what_is_due,
        (_COUNT,),
        ("undercharged",),
    ),
    Leak("noise of another answer", noise_of_another, (_MANY,), ("noise",)),
    Leak("charges of another question", charge_of_another, (), ("not recorded",), life="files"),
    Leak("noise that is used again", noise_used_again, (_MANY, _MANY), ("noise again",)),
    Leak("a release that is not recorded", release_not_recorded, (_COUNT,), ("not recorded",)),
    Leak("a charge that is not recorded", charge_not_recorded, (_COUNT,), ("not recorded",)),
    Leak("a charge that is not booked", charge_not_booked, (_COUNT,), ("not booked",)),
)
