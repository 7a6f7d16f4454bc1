"""The disks of a machine with several data directories: each directory is a simulated disk that fails by itself.

The metadata log has a disk of its own. A call belongs to the disk of its path or descriptor. Writes in C ask `judge`.
"""

from __future__ import annotations

import enum
import errno
import os
import random
from collections.abc import Sequence
from typing import Any, Final

from tests.support.disk_faults import Faults
from tests.support.power import Disk

WRITING: Final = frozenset({"mkdir", "rename", "unlink", "rmdir", "write", "pwrite", "truncate", "ftruncate"})
# The delay of each job of a slow disk.
SLOW_US: Final = 400_000


class State(enum.Enum):
    """How a disk behaves."""

    GOOD = "good"
    # Every call fails with EIO.
    DEAD = "dead"
    # The same until the process ends; then its path does not exist.
    GONE = "gone"
    # Every change fails with EROFS.
    READ_ONLY = "read-only"
    FULL = "full"
    SLOW = "slow"
    # Some kinds of calls fail, each with some probability (support.disk_faults).
    BROKEN = "broken"


# The states in which a data directory is offline once it was written to.
FAILED: Final = frozenset({State.DEAD, State.GONE, State.READ_ONLY})


class MemberFaults(Faults):
    """Those of one disk of several: the limit of writes in C counts for this one alone."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__(draw)
        self._left_bytes, self._code = -1, 0

    def limit(self, size_bytes: int, code: int) -> None:
        self._left_bytes, self._code = size_bytes, code

    def written(self, size_bytes: int) -> int:
        """The errno of a write in C of so many bytes; 0 if it succeeds."""
        if self._left_bytes < 0:
            return 0
        if size_bytes > self._left_bytes:
            return self._code
        self._left_bytes -= size_bytes
        return 0


class Member(Disk):
    """One disk."""

    def __init__(self, root: str, draw: random.Random) -> None:
        super().__init__(root, draw)
        self.faults: MemberFaults = MemberFaults(draw)
        self.takes_notes = True
        self.state = State.GOOD
        # The process that saw the failure has ended.
        self.is_absent = False
        # An empty disk takes its place when the process ends.
        self.is_replaced = False
        # Data that was not synced is lost when the process ends.
        self.drops_unsynced = False
        # Calls that failed since the state began.
        self.refused = 0
        # The disk has failed since the process began.
        self.has_failed = False
        # Called once, at the first of these.
        self.on_refused: Any = None

    def become(self, state: State) -> None:
        self.faults.end()
        self.has_failed |= state not in (State.GOOD, State.SLOW)
        self.state, self.refused = state, 0
        if state is State.FULL:
            self.faults.fill()
        elif state is State.BROKEN:
            self.faults.begin()
        self.is_absent = False
        self.drops_unsynced |= state in (State.DEAD, State.GONE)

    def code_of(self, *, writes: bool, by_path: bool = False) -> int:
        """The errno that a call fails with; 0 if it does not fail as a whole."""
        if self.state is State.GONE and self.is_absent and by_path:
            return errno.ENOENT
        if self.state in (State.DEAD, State.GONE):
            return errno.EIO
        return errno.EROFS if writes and self.state is State.READ_ONLY else 0

    def note(self, code: int) -> int:
        if code:
            self.refused += 1
            if self.on_refused is not None:
                begin, self.on_refused = self.on_refused, None
                begin()
        return code

    def refuse(self, path: Any, *, writes: bool, by_path: bool = False) -> None:
        """Raise the OSError of a call."""
        if code := self.note(self.code_of(writes=writes, by_path=by_path)):
            raise OSError(code, os.strerror(code), path)

    def end_process(self, *, loses_power: bool, is_synced: bool) -> None:
        """The process has ended. Then a failed disk loses unsynced data, if everything that counts is synced."""
        if loses_power or (self.drops_unsynced and is_synced):
            self.cut()
        else:
            self.kill(evicts=False)
        self.drops_unsynced = self.state in (State.DEAD, State.GONE)
        self.is_absent = self.state is State.GONE
        self.has_failed = self.state not in (State.GOOD, State.SLOW)


class AllFaults:
    """The faults of all disks of a machine, as one."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members

    @property
    def active(self) -> bool:
        return any(each.state is not State.GOOD for each in self._members)

    def begin(self) -> None:
        raise AssertionError("one of several disks fails, not all")

    fill = begin

    def end(self) -> None:
        for each in self._members:
            each.become(State.GOOD)


class DiskArray:
    """The disks at `data` and `metadata`, below `root`. The one of the metadata log never fails."""

    takes_notes = True

    def __init__(self, root: str, data: Sequence[str], metadata: str, draw: random.Random) -> None:
        self.root = root
        self.data = [Member(path, draw) for path in data]
        self.members = [*self.data, Member(metadata, draw)]
        self.faults = AllFaults(self.members)

    @property
    def broken(self) -> bool:
        return any(each.broken for each in self.members)

    def of(self, first: Any, named: dict[str, Any] | None = None) -> Member:
        """The disk of a path or descriptor; that of the metadata log if it is none of them."""
        fd = first if isinstance(first, int) else None
        if fd is None and named:
            fd = next((each for key, each in named.items() if "dir_fd" in key), None)
        path = os.fsdecode(first) if fd is None else os.readlink(f"/proc/self/fd/{fd}")
        for each in self.members:
            if path == each.root or path.startswith(f"{each.root}/"):
                return each
        return self.members[-1]

    def at(self, path: str) -> Member:
        """The disk of a data directory."""
        return next(each for each in self.data if each.root == path)

    def call(self, method: str, arguments: Any, named: dict[str, Any]) -> Any:
        """A system call: it fails as a whole, or goes to its disk."""
        member = self.of(arguments[0], named)
        if member.state is not State.GOOD:
            writes = method in WRITING
            if method == "open":
                writes = bool(arguments[1] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR))
            elif method == "open_file":
                writes = arguments[1] != "rb"
            member.refuse(arguments[0], writes=writes, by_path=not isinstance(arguments[0], int))
        return getattr(member, method)(*arguments, **named)

    def judge(self, fd: int, size_bytes: int) -> int:
        """The errno of a write in C; 0 if it succeeds."""
        member = self.of(fd)
        if member.state is State.GOOD:
            return 0
        return member.note(member.code_of(writes=True) or member.faults.written(size_bytes))

    def look(self, path: Any) -> None:
        """A path is looked at. Raises OSError."""
        if isinstance(path, (str, bytes)):
            member = self.of(path)
            if member.state is not State.GOOD:
                member.refuse(path, writes=False, by_path=True)

    def end_process(self, *, loses_power: bool, is_synced: bool) -> None:
        for each in self.members:
            each.end_process(loses_power=loses_power, is_synced=is_synced)
