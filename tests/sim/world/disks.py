"""The disks of the world's machines: system calls go to the disk of the machine that runs at the moment.

So do the bytes that C code may still write. The process has the budget of the disk in use, and the rest of it is kept
while another disk is in use. A process that has ended changes nothing any more, whatever its `finally` blocks do.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from broker_cy.storage import disk as system
from broker_cy.storage import start_listing
from tests.sim.world import blocking
from tests.sim.world.disk_array import DiskArray
from tests.support.disk_faults import UNLIMITED
from tests.support.power import CALLS, Disk, PowerCut, replaced

AnyDisk = Disk | DiskArray
# Calls that only look at a path. Machines with one disk need no answer other than that of the file system.
LOOKS = ("stat", "listdir", "scandir")


class End(Enum):
    """The ends of a process other than a clean stop."""

    KILLED = "killed"
    POWER_LOST = "power lost"


class Current:
    """Whose calls these are. `calls_left`: by disk, after how many more calls the process ends, and how, if it does.
    `end` is how the last one ended.
    """

    def __init__(self) -> None:
        self.disk: Disk | DiskArray | None = None
        self.is_dead = False
        self.calls_left: dict[int, tuple[int, End]] = {}
        self.end = End.KILLED
        # By disk, while it is not in use: the bytes that C code may still write, and the errno afterwards.
        self.budgets: dict[int, tuple[int, int]] = {}
        # By disk: the directory below which nothing succeeds.
        self.dead: dict[int, str] = {}

    def refuse(self, first: Any, named: dict[str, Any]) -> None:
        """Raise OSError for a call whose first argument is a path or a descriptor in the dead part of the disk."""
        below = self.dead[id(self.disk)]
        fd = first if isinstance(first, int) else next((each for key, each in named.items() if "dir_fd" in key), None)
        path = os.fsdecode(first) if fd is None else os.readlink(f"/proc/self/fd/{fd}")
        if path == below or path.startswith(f"{below}/"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

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


def die_at(disk: AnyDisk, calls: int, how: End) -> None:
    """End the process on this disk at its call number `calls` from now."""
    current.calls_left[id(disk)] = calls, how


def stay_alive(disk: AnyDisk) -> None:
    """Forget `die_at`."""
    current.calls_left.pop(id(disk), None)


def break_down(disk: Disk) -> None:
    """Let operations on this disk, and on no other one, begin to fail."""
    with use(disk):
        disk.faults.begin()


def die(disk: Disk, below: str) -> None:
    """Let every operation below a directory of this disk fail, which stands for a disk of its own."""
    with use(disk):
        system.set_write_budget(0, errno.EIO)
    current.dead[id(disk)] = below


def is_dead(disk: AnyDisk) -> bool:
    """Whether a part of this disk has died."""
    return id(disk) in current.dead


def fill(disk: Disk) -> None:
    """Let this disk, and no other one, take no more bytes."""
    with use(disk):
        disk.faults.fill()


def repair(disk: AnyDisk) -> None:
    """Let every operation on this disk succeed again."""
    current.dead.pop(id(disk), None)
    with use(disk):
        disk.faults.end()


def spared(write: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that writes in C without the faults of the dead part of the disk."""

    def call(*arguments: Any) -> Any:
        if id(current.disk) not in current.dead:
            return write(*arguments)
        before = system.set_write_budget(*UNLIMITED)
        try:
            return write(*arguments)
        finally:
            system.set_write_budget(*before)

    return call


@contextmanager
def installed(*, has_arrays: bool = False) -> Iterator[None]:
    """Let the system calls go to the disk in use, or where they went before if there is none. `has_arrays`: some
    machines have several disks.
    """
    calls = [(module, name, _forward(module, name, method)) for module, name, method in CALLS]
    # C code that looks at many partitions at the same time: its caller then looks at each with the calls of a disk.
    calls.append((start_listing, "plain_contents", lambda root, names: [None] * len(names)))
    if has_arrays:
        calls += [(os, name, _looking(getattr(os, name))) for name in LOOKS]
        system.set_write_judge(_judge)
    with replaced(calls):
        try:
            yield
        finally:
            system.set_write_judge(None)
            current.budgets.clear()
            current.dead.clear()


def _forward(module: Any, name: str, method: str) -> Callable[..., Any]:
    # Modules that do not replace the built-in `open` have none of their own.
    before = getattr(module, name, open)

    def call(*arguments: Any, **named: Any) -> Any:
        if current.disk is None:
            return before(*arguments, **named)
        current.count()
        if id(current.disk) in current.dead:
            current.refuse(arguments[0], named)
        if isinstance(current.disk, DiskArray):
            return current.disk.call(method, arguments, named)
        return getattr(current.disk, method)(*arguments, **named)

    return blocking.watched(method, call)


def _judge(fd: int, size_bytes: int) -> int:
    return current.disk.judge(fd, size_bytes) if isinstance(current.disk, DiskArray) else 0


def _looking(look: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if isinstance(current.disk, DiskArray) and arguments:
            current.disk.look(arguments[0])
        return look(*arguments, **named)

    return call


class use:
    """Give all calls to `disk`; None: to the real one. A class, because generators take longer, and it is used in each
    turn.
    """

    def __init__(self, disk: AnyDisk | None, *, is_dead: bool = False) -> None:
        self._disk, self._is_dead = disk, is_dead
        self._before: tuple[AnyDisk | None, bool] = (None, False)

    def __enter__(self) -> None:
        self._before = current.disk, current.is_dead
        _switch(self._disk)
        current.is_dead = self._is_dead

    def __exit__(self, *_: object) -> None:
        _switch(self._before[0])
        current.is_dead = self._before[1]


def _switch(disk: AnyDisk | None) -> None:
    if disk is current.disk:
        return
    left = system.set_write_budget(*current.budgets.pop(id(disk), UNLIMITED))
    if left != UNLIMITED and current.disk is not None:
        current.budgets[id(current.disk)] = left
    current.disk = disk
