"""The partitions of a copy machine: those that it copies or shall copy, and those whose begin is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_mirror.copy.partition import CopyPartition, Key


class Assignment:
    """`wanted` are the partitions of the source to copy from the next transaction on, each with its partition of the
    target; None if they are the present ones. `missing` are those without a position.
    """

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self.partitions: dict[Key, CopyPartition] = {}
        self.missing: set[Key] = set()
        self.wanted: dict[Key, Key] | None = None
        # Partitions whose position is given up once their fetched batches are committed.
        self._again: set[Key] = set()
        # The next sequences of partitions of the target that were given up, under the present producer id and epoch.
        self._sequences: dict[Key, int] = {}

    def begin_again(self, keys: Iterable[Key]) -> bool:
        """Give up the positions of partitions; returns whether one of them did not wait for that already."""
        known = ((key, self.partitions.get(key)) for key in keys)
        # One without a position is loaded anyway.
        new = {key for key, each in known if each is not None and each.position is not None} - self._again
        self._again |= new
        return bool(new)

    def has_to_load(self, now_ms: int) -> bool:
        """Return whether the begin of a partition is to be loaded now."""
        if any(not self.partitions[key].is_waiting(now_ms) for key in self.missing):
            return True
        return any(map(self._is_clean, self._again))

    def apply(self) -> None:
        """Change to the wanted partitions. Those that are new, or begin again, have no position."""
        again = {key for key in self._again if self._is_clean(key)}
        if self.wanted is None and not again:
            return
        wanted, self.wanted = self.wanted, None
        if wanted is None:
            wanted = {key: each.target for key, each in self.partitions.items()}
        before = self.partitions
        kept = {
            key: known
            for key, target in wanted.items()
            if key not in again and (known := before.get(key)) is not None and known.target == target
        }
        self._sequences.update((each.target, each.sequence) for key, each in before.items() if key not in kept)
        self.partitions = {key: kept.get(key) or self._begun(key, target) for key, target in wanted.items()}
        self._again = (self._again - again) & self.partitions.keys()
        self.missing = {key for key, each in self.partitions.items() if each.position is None}

    def _begun(self, key: Key, target: Key) -> CopyPartition:
        """A new partition. A leader would take a batch with the sequence of an older one for that one."""
        found = CopyPartition(key, target, self._lag_max)
        found.sequence = self._sequences.pop(target, 0)
        return found

    def renew(self) -> None:
        """The producer id or its epoch is another one: sequences begin at 0."""
        self._sequences.clear()
        for each in self.partitions.values():
            each.sequence = 0

    def loaded(self, offsets: Mapping[Key, int]) -> None:
        """Take the offsets at which partitions begin."""
        for key, offset in offsets.items():
            if (each := self.partitions.get(key)) is not None and each.position is None:
                each.begin_at(offset)
                each.problem = None
                self.missing.discard(key)

    def _is_clean(self, key: Key) -> bool:
        """Return whether all that was fetched of a partition is committed."""
        each = self.partitions.get(key)
        return each is None or not (each.queue or each.is_dirty)
