"""The disks of the world's machines: the system calls go to that of the machine which runs at the moment.

A process that has ended changes nothing any more, whatever its `finally` blocks do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from tests.support.power import CALLS, Disk, PowerCut, replaced


class End(Enum):
    """How a process ends other than by an orderly stop."""

    KILLED = "killed"
    POWER_LOST = "power lost"


class Current:
    """Whose calls these are. `calls_left`: by disk, after how many more calls the process ends, and how, if it does.
    `end` is how the last one ended.
    """

    def __init__(self) -> None:
        self.disk: Disk | None = None
        self.is_dead = False
        self.calls_left: dict[int, tuple[int, End]] = {}
        self.end = End.KILLED

    def count(self) -> None:
        """Raise PowerCut if the process has ended, or ends now."""
        if self.is_dead:
            raise PowerCut
        plan = self.calls_left.get(id(self.disk))
        if plan is None:
            return
        left, self.end = plan[0] - 1, plan[1]
        if left > 0:
            self.calls_left[id(self.disk)] = left, plan[1]
            return
        del self.calls_left[id(self.disk)]
        self.is_dead = True
        raise PowerCut


current = Current()


def die_at(disk: Disk, calls: int, how: End) -> None:
    """End the process on this disk at its call number `calls` from now."""
    current.calls_left[id(disk)] = calls, how


def stay_alive(disk: Disk) -> None:
    """Forget `die_at`."""
    current.calls_left.pop(id(disk), None)


@contextmanager
def installed() -> Iterator[None]:
    """Let the system calls go to the disk in use, or where they went before if there is none."""
    with replaced([(module, name, _forward(module, name, method)) for module, name, method in CALLS]):
        yield


def _forward(module: Any, name: str, method: str) -> Callable[..., Any]:
    # Modules that do not replace the built-in `open` have none of their own.
    before = getattr(module, name, open)

    def call(*arguments: Any, **named: Any) -> Any:
        if current.disk is None:
            return before(*arguments, **named)
        current.count()
        return getattr(current.disk, method)(*arguments, **named)

    return call


@contextmanager
def use(disk: Disk | None, *, is_dead: bool = False) -> Iterator[None]:
    """Give all calls to `disk`; None: to the real one."""
    before = current.disk, current.is_dead
    current.disk, current.is_dead = disk, is_dead
    try:
        yield
    finally:
        current.disk, current.is_dead = before
