"""The choice of the data directory for a new log.

Kafka counts logs (`count`): the directory with the fewest logs gets the next one, whatever their size. So disks become
full one by one, although the others have room. By default (`space`) the directory with the most free bytes gets it.
Free bytes that differ by less than SAME_SHARE of the largest disk count as equal, and then the number of logs decides:
else all logs that are created in a quiet hour, which are empty at first, would go to the disk that has a few bytes
more, and later share its bandwidth.

The free bytes were measured up to SAMPLE_MS ago, by a worker, because a disk that hangs would hang the caller. So a log
that was created since then counts with the size of one segment.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from broker_cy.storage.data_directory import DataDirectory

# Between two measurements of the free bytes.
SAMPLE_MS: Final = 5_000
# Differences of the free bytes below this share of the largest disk are ignored.
SAME_SHARE: Final = 0.05
# A directory with a smaller share of free bytes gets no new log, as long as another one has more.
FREE_SHARE_MIN: Final = 0.05

# Most logs with a preferred directory: those of one reassignment.
PREFERRED_MAX: Final = 10_000


class PlacementRule(enum.StrEnum):
    """The values of brokercy.log.dirs.placement."""

    SPACE = "space"
    COUNT = "count"


class Placement:
    """Where logs are, by number, and where the next one is created. It touches no file."""

    def __init__(self, directories: Sequence[DataDirectory], rule: PlacementRule) -> None:
        self._directories = directories
        self._rule = rule
        self._counts = {each.path: 0 for each in directories}
        # Free and total bytes, as they were measured.
        self._rooms: dict[str, tuple[int, int]] = {}
        # By path, the bytes that logs may fill that were created since the last measurement began, and since the one
        # before it.
        self._reserved = dict.fromkeys(self._counts, 0)
        self._reserved_before = dict.fromkeys(self._counts, 0)
        # Where to create logs that do not exist yet, if the metadata name no directory (AlterReplicaLogDirs).
        self._preferred: dict[tuple[str, int], str] = {}
        # Whether the data directory of this path takes no new logs (cordoned.log.dirs).
        self.is_cordoned: Callable[[str], bool] = lambda path: False

    def add(self, path: str) -> None:
        """The data directory `path` has one log more."""
        self._counts[path] += 1

    def remove(self, path: str) -> None:
        """The data directory `path` has one log less."""
        self._counts[path] -= 1

    def reserve(self, path: str, segment_bytes: int) -> None:
        """An empty log was created there."""
        self._reserved[path] += segment_bytes

    def prefer(self, key: tuple[str, int], path: str) -> None:
        """Create the log of a partition there, if the metadata name no directory. At most PREFERRED_MAX are known."""
        self._preferred.pop(key, None)
        if len(self._preferred) >= PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[key] = path

    def choices(self, directory_id: UUID, key: tuple[str, int] | None = None) -> list[str]:
        """The paths to try for a new log, the best first; empty if no directory is usable. A usable directory with the
        id `directory_id`, which the metadata name, is the only choice, and else the preferred one.
        """
        usable = [each for each in self._directories if each.failure is None]
        named = [each.path for each in usable if each.directory_id == directory_id]
        preferred = self._preferred.pop(key, None) if key is not None else None
        named = named or [each.path for each in usable if each.path == preferred]
        if named or len(usable) < 2:
            return named or [each.path for each in usable]
        # As in Kafka, the first one if all are cordoned.
        paths = [each.path for each in usable if not self.is_cordoned(each.path)] or [usable[0].path]
        if self._rule is PlacementRule.COUNT or any(path not in self._rooms for path in paths):
            return sorted(paths, key=self._counts.__getitem__)
        return sorted(self._with_room(paths), key=self._rank(paths))

    def _with_room(self, paths: Sequence[str]) -> Sequence[str]:
        """Those that are not nearly full; all if all are."""
        shares = {path: self._rooms[path][0] / max(self._rooms[path][1], 1) for path in paths}
        return [path for path in paths if shares[path] >= FREE_SHARE_MIN] or paths

    def _rank(self, paths: Sequence[str]) -> Callable[[str], tuple[int, int]]:
        """The key that sorts by free bytes, in steps below the most free bytes, and then by number."""
        step = max(SAME_SHARE * max(self._rooms[path][1] for path in paths), 1)
        free = {path: self._rooms[path][0] - self._reserved[path] - self._reserved_before[path] for path in paths}
        most = max(free.values())
        return lambda path: (int((most - free[path]) / step), self._counts[path])

    # --- the free bytes

    def begin_measure(self, path: str) -> None:
        """The free bytes of a directory are measured; `measured` follows, unless that fails."""
        self._reserved_before[path], self._reserved[path] = self._reserved[path], 0

    def measured(self, path: str, free_bytes: int, total_bytes: int) -> None:
        """A measurement has ended. It has counted what was written before it began."""
        self._rooms[path] = free_bytes, total_bytes
        self._reserved_before[path] = 0
