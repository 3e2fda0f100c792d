"""Notes about answers that may have no rows, and rows outside the listed groups of an answer.

Public facts determine which other keys rows may have (`Query.left_out`). Four more facts follow
from noised counts after the measurement: whether there may be no row, whether NULL is missing from
the listed groups, how many groups that a result over groups includes may have no rows, and the
number of rows of a total in the same answer that are in no group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sparseq.question.plan import Plan, values_of_keys
from sparseq.released.outputs import Estimate, Measurements, Outputs
from sparseq.released.render import whole_counts
from sparseq.released.sql_over_noise import After, AskedTotal, Place


def group_notes(plan: Plan, noised: Measurements) -> tuple[str, ...]:
    """Return notes about the groups of an answer, from its noised counts.

    Args:
        plan: The plan of the answer.
        noised: The released measurements.
    """
    outputs, noised = plan.query.outputs, whole_counts(plan, noised)
    if isinstance(outputs, Outputs):
        names = [name for _, name, _ in values_of_keys(plan.query.domains)]
        return (*_of_nulls(outputs, names, noised), *_of_no_rows(outputs, names, noised))
    if not isinstance(outputs, After):
        return ()
    notes = [
        note
        for part in outputs.parts
        for about in (_of_nulls, _of_no_rows)
        for note in about(part.outputs, part.names, part.of(noised))
    ]
    if outputs.over_groups:
        notes += [n for part in outputs.parts for n in _of_listed(part, part.of(noised))]
    notes += [_of_rest(one, outputs.parts, noised) for one in outputs.totals]
    return tuple(dict.fromkeys(notes))


def _of_nulls(outputs: Outputs, names: Sequence[str], noised: Measurements) -> Iterator[str]:
    """Yield a note if groups with NULL are not listed."""
    presence = outputs.presence
    if presence is None or not presence.nulls:
        return
    hidden = presence.unlisted(noised)
    for known in outputs.possible:
        hidden &= known.holds(noised.keys)
    if not hidden.any():
        return
    keys = ", ".join(names[place] for place in presence.nulls)
    many = int(np.count_nonzero(hidden))
    line = f"{keys}: NULL is not listed, as its count is not above its noise"
    if many > 1:
        line = f"{keys}: {many:,} groups with NULL are not listed, as their counts are not above "
        line += "the noise"
    if presence.rows is not None and outputs.least is None:
        most = np.floor(noised.ends(presence.rows)[1][:, 0][hidden].max())
        line += f" ({'at most' if many == 1 else 'each at most'} {max(most, 0):,.0f} rows)"
    yield line


def _of_no_rows(outputs: Outputs, names: Sequence[str], noised: Measurements) -> Iterator[str]:
    """Say that a question without groups may be about no row, so that values over rows are NULL."""
    presence = outputs.presence
    if names or presence is None or not presence.absent(noised).all():
        return
    seen = outputs.present(noised)
    found = [column.node(seen) for column in outputs.columns]
    values = [one.value if isinstance(one, Estimate) else one for one in found]
    if any(isinstance(v, np.ndarray) and v.dtype.kind == "f" and np.isnan(v).any() for v in values):
        yield "values over rows are NULL: there may be none, as their count is not above its noise"


def _of_listed(part: Place, noised: Measurements) -> Iterator[str]:
    """Yield a note if listed groups may have no rows: SQL has no such groups."""
    presence = part.outputs.presence
    if presence is None or not part.names:
        return
    absent = presence.absent(noised)[part.outputs.rows(noised)]
    many = int(np.count_nonzero(absent))
    if many:
        keys = ", ".join(part.names)
        yield (
            f"{keys}: {many:,} of {len(absent):,} groups may have no rows, as their counts are not "
            "above the noise; they are listed all the same, and results over groups include them"
        )


def _of_rest(one: AskedTotal, parts: Sequence[Place], noised: Measurements) -> str:
    """Return a note with the number of rows of a total outside the listed groups."""
    part, whole = parts[one.groups], parts[one.total]
    groups, total = part.of(noised), whole.of(noised)
    listed = part.outputs.listed(groups)
    counted = groups.measures[one.counts[0]][listed, 0]
    low, high = (end[listed, 0] for end in groups.ends(one.counts[0]))
    all_of_them = total.measures[one.counts[1]][0, 0]
    first, last = (end[0, 0] for end in total.ends(one.counts[1]))
    least = np.floor(max(first - high.sum(), 0.0))
    most = np.ceil(max(last - low.sum(), 0.0))
    about = np.clip(np.rint(all_of_them - counted.sum()), least, most)
    keys = ", ".join(part.names)
    if least == 0:
        return f"rows of the total that are in no group by {keys}: at most {most:,.0f}"
    return (
        f"rows of the total that are in no group by {keys}: {about:,.0f} ({least:,.0f} to "
        f"{most:,.0f})"
    )
