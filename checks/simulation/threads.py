"""Threads of a world's processes, in the places of those of the machine: each is a task.

`Threads` has what code under test takes from `threading`, `concurrent.futures` and `asyncio`. At
each lock, and wherever one waits, another may go first; if all wait, the world says so.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from checks.simulation.world import INFINITE, Task, World


class Lock:
    """A lock; a thread that has it can take it again if it is `again`."""

    def __init__(self, world: World, again: bool = False) -> None:
        self._world, self._again = world, again
        self._owner: object = None
        self.depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, when others have released it."""
        me = self._world.current() or threading.current_thread()
        if self._again and self._owner is me:
            self.depth += 1
            return True
        self._world.may_go_first()
        if self.depth and not blocking:
            return False
        if self.depth and not self._world.wait(self._free, INFINITE if timeout < 0 else timeout):
            return False
        self._owner, self.depth = me, 1
        return True

    def _free(self) -> bool:
        return not self.depth

    def release(self) -> None:
        """Release the lock."""
        self.depth -= 1
        if not self.depth:
            self._owner = None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """A lock, and those who wait for something to change under it."""

    def __init__(self, world: World) -> None:
        self._world, self._lock = world, Lock(world, again=True)
        self._waiting: list[object] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Let go of the lock until told, and take it again."""
        mine, depth = object(), self._lock.depth
        self._waiting.append(mine)
        self._lock.depth = 0
        told = self._world.wait(
            lambda: mine not in self._waiting, INFINITE if timeout is None else timeout
        )
        with suppress(ValueError):
            self._waiting.remove(mine)
        self._lock.acquire()
        self._lock.depth = depth
        return told

    def notify(self, n: int = 1) -> None:
        """Tell some of those who wait."""
        del self._waiting[:n]

    def notify_all(self) -> None:
        """Tell all who wait."""
        self._waiting.clear()


class Thread:
    """A thread of the process whose thread begins it."""

    def __init__(
        self,
        world: World,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        name: str = "thread",
        daemon: bool = False,
    ) -> None:
        self._world, self._work = world, lambda: target(*args)
        self.name, self.daemon = name, daemon
        self._task: Task | None = None

    def start(self) -> None:
        """Begin."""
        here = self._world.current()
        assert here is not None
        name = f"{here.name}/{self.name}"
        self._task = self._world.task(name, here.process, self._work)

    def is_alive(self) -> bool:
        """Tell whether it runs."""
        return self._task is not None and not (self._task.done or self._task.process.dead)

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self._world.wait(lambda: not self.is_alive(), INFINITE if timeout is None else timeout)


class Pool:
    """See `concurrent.futures.ThreadPoolExecutor`: threads that do calls in their order."""

    def __init__(self, world: World, threads: int = 1, name: str = "pool") -> None:
        self._world, self._name = world, name
        self._work: list[Callable[[], None]] = []
        self._closed = False
        for _ in range(threads):
            Thread(world, self._run, name=name).start()

    def submit(self, call: Callable[..., Any], *given: Any) -> Future[Any]:
        """Have something called."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        done: Future[Any] = Future()
        self._work.append(lambda: _into(done, call, *given))
        return done

    def shutdown(self) -> None:
        """Do what waits, and end."""
        self._closed = True
        self._world.wait(lambda: not self._work)

    def _run(self) -> None:
        while self._world.wait(lambda: bool(self._work) or self._closed) and self._work:
            self._work.pop(0)()


def _into(done: Future[Any], call: Callable[..., Any], *given: Any) -> None:
    """Put the result of a call into a future."""
    if done.set_running_or_notify_cancel():
        try:
            result = call(*given)
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(result)


class Loop(asyncio.BaseEventLoop):
    """An event loop whose only events are calls of other threads, and its clock."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._told = False
        self._selector = self  # of a loop, this is what waits

    def time(self) -> float:
        """See `asyncio.AbstractEventLoop`."""
        return self._world.clock

    def select(self, timeout: float | None) -> list[Any]:
        """Wait until a thread calls, or for some seconds."""
        self._world.wait(lambda: self._told, INFINITE if timeout is None else timeout)
        self._told = False
        return []

    def _process_events(self, _: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        self._told = True

    def run_in_executor(self, pool: Any, call: Callable[..., Any], *given: Any) -> Any:
        """Run a call in a pool; in a separate thread, if there is none."""
        if pool is not None:
            return asyncio.wrap_future(pool.submit(call, *given), loop=self)
        done: Future[Any] = Future()
        around = copy_context()
        Thread(self._world, lambda: _into(done, around.run, call, *given)).start()
        return asyncio.wrap_future(done, loop=self)

    def end(self) -> None:
        """Drop all running calls, as a dying process does."""
        for task in asyncio.all_tasks(self):
            with suppress(BaseException):
                coroutine: Any = task.get_coro()
                coroutine.close()
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        self.close()


class Threads:
    """The threads of a world, as modules of the code under test know them."""

    def __init__(self, world: World) -> None:
        self._world = world

    def names(self) -> dict[str, Any]:
        """Return the replacements of names of `threading`."""
        world = self._world
        return {
            "Lock": lambda: Lock(world),
            "RLock": lambda: Lock(world, again=True),
            "Condition": lambda: Condition(world),
            "Thread": lambda **given: Thread(world, **given),
        }

    def pool(self, threads: int, name: str = "pool") -> Pool:
        """Return a pool."""
        return Pool(self._world, threads, name)
