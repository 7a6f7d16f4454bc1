"""An application of broker_streams in a world: its results, its stores and its offsets, compared with its input.

Exactly once: its committed results are those of a run without faults over the committed records of the sources, once
and in the order of each partition. A store has what its changelog has, and the offsets of the group are behind the last
record. Another instance that restores the stores gets the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker_cy.client.streams_member import Role
from broker_streams.kernel.stores.bound import to_timestamped
from tests.sim.world import instances
from tests.sim.world.clients.base import value_of
from tests.sim.world.cluster import Lagging
from tests.sim.world.instances import (
    APPLICATION,
    DEAD,
    OUTPUTS,
    PLAIN,
    SOURCES,
    STORES,
    TOTALS,
    WINDOW_MS,
    WINDOWS,
    Instance,
    bucket_of,
    is_poison,
)
from tests.sim.world.mirrors import Key, batches, log_of, records_in
from tests.support.power import replaced

if TYPE_CHECKING:
    from broker_cy.wire.record import Record
    from tests.sim.world.world import World

# The time between two looks at the results: each one reads all logs.
LOOKS_US: Final = 200_000
# The sub-topology with the stores, and the partitions of its repartition topic: the largest number of a source.
COUNTING, REPARTITION, PARTITIONS = "1", "app-buckets-repartition", 2


class Given(NamedTuple):
    """A committed record of a source."""

    key: bytes | None
    source: Key
    offset: int
    timestamp: int


class Application:
    """The knowledge of the world about the application."""

    def __init__(self, world: World) -> None:
        self._world = world
        # The result of the last look, and when the next one is due.
        self._found: list[Lagging] = []
        self._due_us = 0

    def installed(self) -> AbstractContextManager[None]:
        return replaced(instances.seams(self._world))

    def instances(self) -> list[Instance]:
        return [each for each in self._world.processes.values() if isinstance(each, Instance)]

    def restart(self) -> None:
        """End all instances at once: the next ones restore the stores."""
        for each in self.instances():
            each.kill()
        self._due_us = 0

    def behind(self) -> list[Lagging]:
        """The parts of the results that are missing, and stores that lag. Raises AssertionError for wrong ones."""
        if self._world.time.now_us >= self._due_us:
            self._found = self._look()
            self._due_us = self._world.time.now_us + LOOKS_US
        return self._found

    def _look(self) -> list[Lagging]:
        for key in self._partitions(*SOURCES, *OUTPUTS):
            if log_of(self._world.cluster, key) is None:
                # A leader resigns before the next one knows of itself.
                return [Lagging(f"the leader of {key}")]
        given: dict[str, Given] = {}
        for key in self._partitions(*SOURCES):
            for record in self._committed(key):
                given[value_of(record)] = Given(record.key, key, record.offset, record.timestamp)
        healthy = {name: each for name, each in given.items() if not is_poison(name)}
        return [
            *_missing(DEAD, set(given) - set(healthy), [value_of(each) for each in self._of(DEAD)]),
            *self._plain_behind(healthy),
            *self._totals_behind(healthy),
            *self._windows_behind(healthy),
            *self._offsets_behind(),
            *self._tasks_behind(),
        ]

    # --- results

    def _plain_behind(self, given: dict[str, Given]) -> list[Lagging]:
        for key in self._partitions(PLAIN):
            _check_order(f"{key}", given, [value_of(each) for each in self._committed(key)])
        return _missing(PLAIN, set(given), [value_of(each) for each in self._of(PLAIN)])

    def _totals_behind(self, given: dict[str, Given]) -> list[Lagging]:
        names: defaultdict[str, list[str]] = defaultdict(list)
        for record in self._of(TOTALS):
            number, _, name = value_of(record).partition("|")
            bucket = (record.key or b"").decode()
            names[bucket].append(name)
            assert int(number) == len(names[bucket]), f"{TOTALS}: {bucket} has {number} after {names[bucket][-5:]}"
            assert name in given, f"{TOTALS}: {name} is not in the input"
            assert bucket_of(name) == bucket, f"{TOTALS}: {name} is no record of {bucket}"
        for bucket, each in names.items():
            _check_order(f"{TOTALS}: {bucket}", given, each)
        return _missing(TOTALS, set(given), [name for each in names.values() for name in each])

    def _windows_behind(self, given: dict[str, Given]) -> list[Lagging]:
        expected = Counter(
            f"{bucket_of(name)}@{each.timestamp - each.timestamp % WINDOW_MS}" for name, each in given.items()
        )
        found: Counter[str] = Counter()
        for record in self._of(WINDOWS):
            window = (record.key or b"").decode()
            found[window] += 1
            count = int.from_bytes(record.value or b"")
            assert count == found[window], f"{WINDOWS}: {window} has {count} after {found[window] - 1}"
        for window, count in found.items():
            assert count <= expected[window], f"{WINDOWS}: {window} has {count}, and {expected[window]} records"
        return [] if found == expected else [Lagging(f"{WINDOWS} ({found.total()} of {expected.total()})")]

    # --- offsets, tasks and stores

    def _offsets_behind(self) -> list[Lagging]:
        """The partitions that were not processed to their last record. Raises AssertionError: beyond the end."""
        found = []
        for key in [*self._partitions(*SOURCES), *self._partitions(REPARTITION)]:
            log = log_of(self._world.cluster, key)
            if log is None:
                return [Lagging(f"{key}")]
            at = self._offset(key)
            assert at <= log.log_end_offset, f"{key}: {at} is committed, and the log ends at {log.log_end_offset}"
            if any(each.offset >= at for each in self._committed(key)):
                found.append(Lagging(f"the offset {at} of {key}"))
        return found

    def _offset(self, key: Key) -> int:
        for machine in self._world.cluster.machines.values():
            if machine.server is not None and machine.is_started:
                for runtime in machine.server.broker.groups.runtimes.values():
                    committed = runtime.machine.offsets.get(APPLICATION, *key)
                    if committed is not None:
                        return int(committed.committed_offset)
        return 0

    def _tasks_behind(self) -> list[Lagging]:
        active: list[int] = []
        for instance in self.instances():
            for (part, partition), running in [] if instance.app is None else instance.app.tasks.running.items():
                if part != COUNTING:
                    continue
                if running.role is Role.ACTIVE:
                    if running.positions is None:
                        return [Lagging(f"{instance.host}, task {part}_{partition} restores")]
                    active.append(partition)
                for store, topic in STORES.items():
                    if self._store(running.task.stores[store]) != self._changelog(topic, partition):
                        return [Lagging(f"{instance.host}, {running.role.value} store {store} of {part}_{partition}")]
        return [] if sorted(active) == list(range(PARTITIONS)) else [Lagging(f"the tasks ({active} are active)")]

    @staticmethod
    def _store(store: Any) -> dict[bytes, bytes]:
        store.flush()
        return {bytes(key): bytes(value) for key, value in store.entries()}

    def _changelog(self, topic: str, partition: int) -> dict[bytes, bytes]:
        """The rows that a store would have."""
        rows: dict[bytes, bytes] = {}
        for record in self._committed((topic, partition)):
            assert record.key is not None
            value = to_timestamped(record.value, record.timestamp)
            if value is None:
                rows.pop(bytes(record.key), None)
            else:
                rows[bytes(record.key)] = bytes(value)
        return rows

    # --- logs

    def _of(self, topic: str) -> list[Record]:
        return [record for key in self._partitions(topic) for record in self._committed(key)]

    def _partitions(self, *topics: str) -> list[Key]:
        """Those that a broker knows."""
        for machine in self._world.cluster.machines.values():
            if machine.server is not None and machine.is_started:
                images = {each.name: each for each in machine.server.broker.image.topics}
                return [(topic, index) for topic in topics if topic in images for index in images[topic].partitions]
        return [(topic, index) for topic in topics for index in range(OUTPUTS.get(topic, 1))]

    def _committed(self, key: Key) -> list[Record]:
        log = log_of(self._world.cluster, key)
        return [] if log is None else records_in(batches(log, 0, log.log_end_offset), committed=True)


def _missing(what: str, expected: set[str], found: list[str]) -> list[Lagging]:
    """Raises AssertionError for records that come twice, or that are no records of the input."""
    counts = Counter(found)
    twice = sorted(name for name, count in counts.items() if count > 1)
    assert not twice, f"{what}: twice: {twice[:5]} of {len(twice)}"
    strange = sorted(counts.keys() - expected)
    assert not strange, f"{what}: not in the input: {strange[:5]} of {len(strange)}"
    missing = sorted(expected - counts.keys())
    return [Lagging(f"{what} (lacks {missing[:3]} of {len(missing)})")] if missing else []


def _check_order(what: str, given: dict[str, Given], names: list[str]) -> None:
    """Raises AssertionError if records of one partition and key do not follow one another."""
    last: dict[tuple[Key, bytes | None], int] = {}
    for name in names:
        if (each := given.get(name)) is not None:
            place = each.source, each.key
            assert each.offset > last.get(place, -1), f"{what}: {name} at {each.offset} follows {last[place]}"
            last[place] = each.offset
