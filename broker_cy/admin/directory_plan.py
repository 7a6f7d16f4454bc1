"""Plans that move replicas between the directories (disks) of one broker. Pure: directories in, moves out.

- A replica moves at most once, and only to a directory that is online, not cordoned, and has room for it.
- `balance` by space evens out how full the directories are: the bytes of their logs, divided by those that logs could
  have there (theirs and the free ones of the volume), so that disks of different sizes and files of other programs
  count. Each move brings bytes from a directory with too many to one with too few: few bytes are moved.
- `balance` by count evens out the number of replicas, as Kafka's placement does, and moves the smallest ones.
- `drain` empties a directory, the largest replica first, each to the directory that is emptiest then.

Loads are in units of what the policy evens out; a plan has at most as many moves as the broker has replicas.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Final

from broker_cy.admin.log_dirs import BrokerReplica, LogDir
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import size

# Directories that differ from their share by less than this are left alone: a fraction of the share.
TOLERANCE_DEFAULT: Final = 0.05


class By(enum.StrEnum):
    """The measure that a balance evens out."""

    SPACE = "space"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class DirectoryMove:
    """A move of a replica between two directories of a broker."""

    replica: BrokerReplica
    source: str
    target: str
    size_bytes: int


@dataclass(slots=True)
class _Disk:
    """A directory while a plan moves replicas. `share` is its part of the whole load that it should have."""

    path: str
    accepts: bool
    free_bytes: int | None
    logs_bytes: int
    replicas: int
    left: list[tuple[int, TopicPartition]] = field(default_factory=list)
    """The replicas that the plan has not moved, the smallest first."""
    share: float = 0.0

    @classmethod
    def of(cls, directory: LogDir) -> _Disk:
        left = sorted((each.size_bytes, TopicPartition(each.topic, each.partition)) for each in directory.replicas)
        return cls(
            directory.path, directory.accepts, directory.usable_bytes, directory.size_bytes, len(directory.replicas),
            left,
        )  # fmt: skip

    @property
    def capacity_bytes(self) -> int | None:
        return None if self.free_bytes is None else self.free_bytes + self.logs_bytes

    def has_room(self, size_bytes: int) -> bool:
        return self.free_bytes is None or size_bytes <= self.free_bytes


class _Plan:
    """The directories of one broker, and the moves so far."""

    def __init__(self, directories: Sequence[LogDir]) -> None:
        self.broker_id = directories[0].broker_id
        self.disks = [_Disk.of(each) for each in directories if not each.error]
        self.moves: list[DirectoryMove] = []

    def move(self, source: _Disk, target: _Disk, replica: tuple[int, TopicPartition]) -> None:
        size_bytes, partition = replica
        source.left.remove(replica)
        for disk, sign in ((source, -1), (target, 1)):
            disk.logs_bytes += sign * size_bytes
            disk.replicas += sign
        # Moves run at the same time: the room that one leaves behind is not there yet when another one begins.
        if target.free_bytes is not None:
            target.free_bytes -= size_bytes
        self.moves.append(DirectoryMove(BrokerReplica(self.broker_id, partition), source.path, target.path, size_bytes))


def balance(
    directories: Sequence[LogDir], by: By = By.SPACE, tolerance: float = TOLERANCE_DEFAULT
) -> tuple[DirectoryMove, ...]:
    """Even out the directories of one broker that take replicas. `tolerance` belongs to SPACE."""
    plan = _Plan([each for each in directories if each.accepts]) if any(each.accepts for each in directories) else None
    if plan is None or len(plan.disks) < 2:
        return ()
    if by is By.COUNT:
        _even_counts(plan)
    else:
        _even_bytes(plan, tolerance)
    return tuple(plan.moves)


def _even_counts(plan: _Plan) -> None:
    while True:
        source = max(plan.disks, key=lambda each: each.replicas)
        targets = [each for each in plan.disks if source.replicas - each.replicas > 1]
        targets = [each for each in targets if source.left and each.has_room(source.left[0][0])]
        if not targets:
            return
        plan.move(source, min(targets, key=lambda each: each.replicas), source.left[0])


def _even_bytes(plan: _Plan, tolerance: float) -> None:
    disks = plan.disks
    capacities = [each.capacity_bytes for each in disks]
    # Brokers before Kafka 3.3 do not report sizes of volumes: all directories count as equally large then.
    known = [each or 1 for each in capacities] if None not in capacities else [1] * len(disks)
    whole = sum(each.logs_bytes for each in disks)
    for disk, capacity in zip(disks, known, strict=True):
        disk.share = whole * capacity / sum(known)

    def surplus(disk: _Disk) -> float:
        return disk.logs_bytes - disk.share

    while any(abs(surplus(each)) > tolerance * each.share for each in disks):
        sources = sorted((each for each in disks if surplus(each) > 0), key=surplus, reverse=True)
        targets = sorted((each for each in disks if surplus(each) < 0), key=surplus)
        if not any(_move_best(plan, source, target, surplus) for source in sources for target in targets):
            return


def _move_best(plan: _Plan, source: _Disk, target: _Disk, surplus: Callable[[_Disk], float]) -> bool:
    """Move the largest replica that neither empties `source` below nor fills `target` above its share; or else the
    smallest larger one, if the two directories differ less afterwards. False if no replica does.
    """
    over, under = surplus(source), -surplus(target)
    place = bisect_right(source.left, min(over, under), key=lambda each: each[0])
    if place and source.left[place - 1][0] > 0:
        chosen = source.left[place - 1]
    elif place < len(source.left) and source.left[place][0] < over + under:
        chosen = source.left[place]
    else:
        return False
    if not target.has_room(chosen[0]):
        return False
    plan.move(source, target, chosen)
    return True


def drain(directories: Sequence[LogDir], path: str) -> tuple[DirectoryMove, ...]:
    """Move every replica away from the directory at `path`. Raises ClientError if the broker has no such
    directory, it is offline, or the others have no room.
    """
    directory = directory_at(directories, path)
    plan = _Plan(directories)
    (source,) = [each for each in plan.disks if each.path == path]
    targets = [each for each in plan.disks if each.accepts and each is not source]
    if source.left and not targets:
        raise ClientError(
            Failure.REFUSED, "the broker has no other directory that takes replicas", what=_name(directory)
        )

    def fullness(disk: _Disk) -> tuple[float, int]:
        capacity = disk.capacity_bytes
        return (disk.logs_bytes / (capacity or 1) if capacity is not None else float(disk.logs_bytes), disk.replicas)

    for replica in sorted(source.left, reverse=True):
        able = [each for each in targets if each.has_room(replica[0])]
        if not able:
            raise ClientError(
                Failure.REFUSED, f"no other directory has room for {replica[1]}, {size(replica[0])}",
                what=_name(directory),
            )  # fmt: skip
        plan.move(source, min(able, key=fullness), replica)
    return tuple(plan.moves)


def moves_to_directory(
    directories: Sequence[LogDir], path: str, wanted: Callable[[TopicPartition], bool]
) -> tuple[DirectoryMove, ...]:
    """Move the replicas `wanted` of a broker to the directory at `path`; others stay. Raises ClientError if
    the directory cannot take them.
    """
    target = directory_at(directories, path)
    if target.is_cordoned:
        raise ClientError(Failure.REFUSED, "it is cordoned: it takes no replicas", what=_name(target))
    moves = tuple(
        DirectoryMove(BrokerReplica(each.broker_id, key), each.path, path, replica.size_bytes)
        for each in directories
        if each.path != path and not each.error
        for replica in each.replicas
        if not replica.is_future and wanted(key := TopicPartition(replica.topic, replica.partition))
    )
    copied = sum(each.size_bytes for each in moves)
    if target.usable_bytes is not None and copied > target.usable_bytes:
        raise ClientError(
            Failure.REFUSED, f"{size(target.usable_bytes)} are free, and {size(copied)} would be moved there",
            what=_name(target),
        )  # fmt: skip
    return moves


def directory_at(directories: Sequence[LogDir], path: str) -> LogDir:
    """The directory at `path`. Raises ClientError if there is none, or it is offline."""
    found = next((each for each in directories if each.path == path), None)
    if found is None:
        names = ", ".join(each.path for each in directories) or "none"
        raise ClientError(
            Failure.INVALID, f"the broker has no such directory; it has {names}", what=f"directory {path}"
        )
    if found.error:
        raise ClientError(Failure.REFUSED, f"it is offline: {found.error}", what=_name(found))
    return found


@dataclass(frozen=True, slots=True)
class Load:
    """The logs of a directory."""

    size_bytes: int
    replicas: int


def loads_after(directories: Iterable[LogDir], moves: Iterable[DirectoryMove]) -> dict[tuple[int, str], Load]:
    """The load of each directory, by broker id and path, once the moves are complete."""
    loads = {
        (each.broker_id, each.path): [each.size_bytes, len(each.replicas)] for each in directories if not each.error
    }
    for move in moves:
        for path, sign in ((move.source, -1), (move.target, 1)):
            load = loads[move.replica.broker_id, path]
            load[0] += sign * move.size_bytes
            load[1] += sign
    return {key: Load(*load) for key, load in loads.items()}


def _name(directory: LogDir) -> str:
    return f"{directory.path} of broker {directory.broker_id}"
