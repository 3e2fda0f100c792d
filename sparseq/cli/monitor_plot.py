"""Pictures of a monitored series: of released rows alone, so that anybody may see them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseq.cli.figure import Figure, Series
from sparseq.cli.page import html_page, write_png
from sparseq.cli.text import DELTA, DELTA_TEXT, NOT_PRIVATE
from sparseq.errors import ParameterError
from sparseq.pictures.numbers import number, upper

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.cli.figure import Figure, Series
    from sparseq.store import Store

KINDS = (".html", ".png", ".svg")
MOST = 24
"""More figures than these are not drawn."""
_NOT_DRAWN = {("watch", "alarm"), ("watch", "people")}
_WATCH = {
    "active_share": ("People who have never been left out", "share of all people"),
    "dropped": ("People who have ever been left out", "number of people"),
}
_AFTER_TICK = ("estimate", "column", "value")


def check_plot(path: Path) -> None:
    """Raise `ParameterError` where a picture of this name can't be made."""
    if path.suffix.lower() not in KINDS:
        raise ParameterError(f"--plot {str(path)!r}: what kind of picture?", ", ".join(KINDS))
    if not path.parent.is_dir():
        raise ParameterError(f"there is no folder {str(path.parent)!r}", "make it, then --plot")
    if path.suffix.lower() != ".html":
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise ParameterError(
                f"a {path.suffix} needs Matplotlib, which is not installed",
                "pip install 'sparseq[plot]', or --plot FILE.html",
            ) from None


def write_plot(rows: pa.Table, store: Store, path: Path) -> None:
    """Draw every series; the file appears whole or not at all."""

    figures = figures_of(rows, store)
    if not figures:
        return
    working = path.with_name(f".{path.name}.tmp")
    try:
        if path.suffix.lower() == ".html":
            names = [n for n in dict.fromkeys(rows["series"].to_pylist()) if n != "watch"]
            title = ", ".join(names) or "watch"
            working.write_text(html_page(figures, title=title), encoding="utf-8")
        else:
            write_png(figures, working, path.suffix.lower()[1:])
        os.replace(working, path)
    except OSError as error:
        raise ParameterError(f"can't write {str(path)!r}: {error.strerror}") from None
    finally:
        working.unlink(missing_ok=True)


def figures_of(rows: pa.Table, store: Store) -> list[Figure]:
    """Return a figure for every series, group and number, in the order of their first rows."""
    lines: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
    names = rows.column_names
    keys = names[names.index("tick") + 1 : names.index(_AFTER_TICK[0])]
    series = len(set(rows["series"].to_pylist()) - {"watch"})
    ticks = len(set(rows["tick"].to_pylist()))
    for row in rows.to_pylist():
        place = (row["series"], row["column"], *((k, row[k]) for k in keys if row[k] is not None))
        lines.setdefault(place, {}).setdefault(row["estimate"], []).append(row)
    times = store.budget.worst_case_sigma(ticks * series) / store.budget.sigma_0
    notes = [
        f"Worst-case composition has the same guarantee, {guarantee(store)}, for {series} "
        f"{'query' if series == 1 else 'queries'} on {ticks:,} ticks, and no answer after them.",
        *([NOT_PRIVATE] if store.seed is not None else []),
    ]
    drawn = [
        _figure(place, found, times, notes)
        for place, found in lines.items()
        if place not in _NOT_DRAWN
    ]
    if len(drawn) > MOST:
        drawn[MOST - 1].notes.append(f"{MOST} of {len(drawn):,} groups are drawn.")
    return drawn[:MOST]


def _figure(
    place: tuple[Any, ...], found: dict[str, list[dict[str, Any]]], times: float, notes: list[str]
) -> Figure:

    series, column, *keys = place
    group = ", ".join(f"{name} {value}" for name, value in keys)
    title = f"{series}: {column}" if series != column else series
    title = f"{title}, {group}" if group else title
    answers = found.get("answer")
    if answers is None:  # an estimate that stands for itself
        rows = next(iter(found.values()))
        title, name = _WATCH.get(column, (title, column))
        return Figure(
            title, "at each tick, with noise", [_series(name, rows, 1.0)], notes=notes[1:]
        )
    drawn = [
        _series("sparseq, an account per person", answers, 1.0),
        _series("worst-case composition", answers, times),
    ]
    if "corrected" in found:
        drawn.append(_series("corrected for those left out", found["corrected"], 1.0))
        notes = ["What the forecast in the correction is off by is estimated apart.", *notes]
    about = "People whose budget is used up are left out; no ± of the answers covers that."
    return Figure(title, "at each tick, with noise", drawn, notes=[about, *notes])


def _series(name: str, rows: list[dict[str, Any]], times: float) -> Series:

    def column(which: str) -> Any:
        return np.array([np.nan if r[which] is None else r[which] for r in rows], np.float64)

    return Series(name, [r["tick"] for r in rows], column("value"), column("error") * times)


def guarantee(store: Store) -> str:
    """Return the guarantee for a chart."""
    return (
        f"{number(store.budget.kappa)}-zCDP (epsilon {upper(store.budget.epsilon(DELTA))} at delta "
        f"{DELTA_TEXT})"
    )


class Picture:
    """The file of `--plot`: drawn anew when there is something new to show."""

    def __init__(self, path: Path | None, rows: Callable[[], pa.Table], store: Store) -> None:
        if path is not None:
            check_plot(path)
        self._path, self._rows, self._store = path, rows, store
        self.stale = False

    def refresh(self) -> None:
        """Draw, if ticks were answered since the last time."""
        if self._path is not None and self.stale:
            write_plot(self._rows(), self._store, self._path)
            self.stale = False
