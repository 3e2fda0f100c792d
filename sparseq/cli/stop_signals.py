"""Ctrl-C during a query: it charges nothing before the commit, and reports the charge after it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from sparseq.pictures.bounded_numbers import upper

if TYPE_CHECKING:
    from sparseq.store.store import Store

Press = Callable[[int, FrameType | None], None]
INTERRUPTED = 130
"""Exit code of a command that was stopped."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Run a block that Ctrl-C stops with KeyboardInterrupt, even if a library raises another error.

    Compiled code that is stopped raises its own errors or continues.
    """
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    with _on_ctrl_c(press):
        try:
            yield
        except Exception:
            if pressed:
                raise KeyboardInterrupt from None
            raise


def unstoppable() -> contextlib.AbstractContextManager[None]:
    """Run a block that Ctrl-C doesn't stop."""
    return _on_ctrl_c(signal.SIG_IGN)


@contextlib.contextmanager
def _on_ctrl_c(handler: Press | signal.Handlers) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # other threads never see it
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def released_so_far(store: Store) -> tuple[int, float]:
    """Return the number of released answers and the highest charge to a person: public."""
    course = store.stream.course
    return store.released, 0.0 if course is None else course.clock


def stopped_text(store: Store, before: tuple[int, float], show: str) -> str:
    """Return the charge for a stopped query in words.

    Args:
        store: Opened again.
        before: `released_so_far` before the query.
        show: The command that shows a release; its number replaces {}.
    """
    releases, clock = released_so_far(store)
    if releases == before[0]:
        return "stopped: nothing was answered, nothing charged"
    answer = store.release(releases)
    if answer.facts.interval:
        cost = f"a person paid {upper(clock - before[1])} at most"
    else:
        noise = zip(answer.facts.scale, answer.facts.sigma, strict=True)
        charge = sum((scale * store.guarantee.sigma_0 / sigma) ** 2 for scale, sigma in noise)
        cost = f"a contribution the size of its scale cost {upper(charge)}"
    return (
        f"stopped when it was answered and charged already, as release {releases:,}: {cost}\n"
        f"{show.format(releases)} shows it, free"
    )
