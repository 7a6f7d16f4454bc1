"""Two clusters of a world between which processes of broker-mirror copy (docs/mirror.md): what both have in common.

Exactly once: each committed record of the source is once in the target, in the same order, and no other record is. The
offsets that the flow commits there for groups of the source never skip a record that the group has not read.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from tests.sim.world import mirror_process
from tests.sim.world.clients.committers import Committer
from tests.sim.world.cluster import CLUSTER, TARGET, Cluster, Lagging
from tests.sim.world.mirror_process import SOURCE, syncs_in_target
from tests.sim.world.mirrors import KEYS, Key, log_of, readable
from tests.support.power import replaced

if TYPE_CHECKING:
    from tests.sim.world.world import World

NO_OFFSET = -1
# The time between two looks at both sides: each one reads all logs.
LOOKS_US = 200_000


class Copies:
    """The knowledge of the world about a copy flow."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._source, self._target = world.clusters[CLUSTER], world.clusters[TARGET]
        # The result of the last look, and when the next one is due.
        self._found: list[Lagging] = []
        self._due_us = 0

    def installed(self) -> AbstractContextManager[None]:
        return replaced(mirror_process.seams(self._world))

    # --- at the end

    def _committed(self, cluster: Cluster, key: Key) -> list[tuple[int, str]] | None:
        """Offset and value of the committed records of a partition whose replicas are in sync; None without a log."""
        log = log_of(cluster, key)
        return None if log is None else readable(log, log.log_end_offset, committed=True)

    def behind(self) -> list[Lagging]:
        """The partitions that were not copied to their ends, and groups whose offsets were not. Raises AssertionError
        if the target has anything else than the source has.
        """
        if self._world.time.now_us >= self._due_us:
            self._found = self._look()
            self._due_us = self._world.time.now_us + LOOKS_US
        return self._found

    def _look(self) -> list[Lagging]:
        found = []
        for topic, index in KEYS:
            source = self._committed(self._source, (topic, index))
            target = self._committed(self._target, (f"{SOURCE}.{topic}", index)) or []
            assert source is not None
            expected, copied = ([value for _, value in each] for each in (source, target))
            assert copied == expected[: len(copied)], _difference(f"{topic}-{index}", expected, copied)
            if len(copied) < len(expected):
                found.append(Lagging(f"{topic}-{index} ({len(copied)} of {len(expected)} records were copied)"))
        return found or self._groups_behind()

    def _groups_behind(self) -> list[Lagging]:
        found = []
        committers = [each for each in self._world.all_clients if isinstance(each, Committer)]
        for committer in committers:
            for key, offset in committer.highest.items():
                remote = f"{SOURCE}.{key[0]}", key[1]
                source, target = self._committed(self._source, key), self._committed(self._target, remote)
                log = log_of(self._target, remote)
                assert source is not None
                read = sum(at < offset for at, _ in source)
                translated = self._translated(committer.group, key)
                if translated == NO_OFFSET:
                    # Offset syncs in the source may be lost with the process that has copied their records.
                    if sum(at < committer.last[key] for at, _ in source) and syncs_in_target(self._world):
                        found.append(Lagging(f"{committer.group}, {key}"))
                    continue
                assert target is not None
                assert log is not None
                skipped = sum(at < translated for at, _ in target)
                assert skipped <= read, (
                    f"{committer.group} has read {read} records of {key} up to {offset}, and would go on after "
                    f"{skipped} of its copy, at {translated}"
                )
                assert translated <= log.log_end_offset, f"{committer.group} is at {translated} of {remote}"
        return found

    def _translated(self, group: str, key: Key) -> int:
        """The offset that the target has for the copy of a partition."""
        for machine in self._target.machines.values():
            assert machine.server is not None
            for runtime in machine.server.broker.groups.runtimes.values():
                found = runtime.machine.offsets.get(group, f"{SOURCE}.{key[0]}", key[1])
                if found is not None:
                    return int(found.committed_offset)
        return NO_OFFSET


def _difference(name: str, expected: list[str], copied: list[str]) -> str:
    at = next((at for at, pair in enumerate(zip(expected, copied, strict=False)) if pair[0] != pair[1]), len(expected))
    twice = sorted({value for value in copied if copied.count(value) > 1})
    return (
        f"{name}: record {at} of the copy is {copied[at : at + 1]}, and that of the source {expected[at : at + 1]}; "
        f"twice: {twice[:5]}"
    )
