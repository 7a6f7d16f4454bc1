"""Acts that move replicas between the directories (disks) of a broker: to a directory, to balance them, and away from
one (KIP-113); and cancelling them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.directory_plan import (
    TOLERANCE_DEFAULT,
    By,
    DirectoryMove,
    Load,
    balance,
    directory_at,
    drain,
    loads_after,
    moves_to_directory,
)
from broker_cy.admin.log_dirs import BrokerReplica, LogDir
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.move_progress import MoveProgress
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.directory_run import run_directory_moves
from broker_cy.console.acts.pace import PACE_DEFAULT, LongAct, Pace, pace_form
from broker_cy.console.acts.plan import Change, Command, Failed, Plan, Report
from broker_cy.console.directory_moves import MovingReplica, directory_moves_now, moving_replicas, rates_text
from broker_cy.console.fields import Field, Form
from broker_cy.console.moving import brokers_text
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import percent, plural, size

Directories = tuple[LogDir, ...]


@dataclass(frozen=True, slots=True)
class MoveBetweenDirectories(LongAct):
    """Moves replicas; first lets the brokers of `cordon` refuse new ones in those directories (words of `log.dirs`)."""

    moves: tuple[DirectoryMove, ...]
    pace: Pace = PACE_DEFAULT
    cordon: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        return len(self.moves)

    async def follow(self, client: AdminClient, progress: Callable[[MoveProgress], None]) -> Report:
        for broker, paths in self.cordon.items():
            await client.brokers.cordon(broker, paths)
        return await run_directory_moves(client, self.moves, self.pace, progress)


@dataclass(frozen=True, slots=True)
class StartDirectoryMoves:
    """Starts moves, and waits for none: their brokers go on alone."""

    moves: tuple[DirectoryMove, ...]

    async def run(self, client: AdminClient) -> Report:
        outcome = await client.log_dirs.alter({each.replica: each.target for each in self.moves})
        said = f"moving {plural(len(outcome.found), 'replica')}: `broker-cy log-dirs status` shows the progress"
        return Report.of(said, outcome)


@dataclass(frozen=True, slots=True)
class CancelDirectoryMoves:
    """Cancels moves, and removes the throttles of `throttled` brokers."""

    moving: tuple[MovingReplica, ...]
    throttled: tuple[int, ...]

    async def run(self, client: AdminClient) -> Report:
        outcome = await client.log_dirs.alter({each.replica: each.source for each in self.moving})
        said = f"cancelled {plural(len(outcome.found), 'move')}"
        report = Report.of(said, outcome)
        if not self.throttled:
            return report
        removed = await client.throttles.remove_directory_rates(self.throttled)
        left = tuple(Failed(str(key), error) for key, error in removed.failed.items())
        return Report(f"{said}; removed the throttle", report.done, report.failed + left)


def directory_form(title: str, label: str, paths: Sequence[str]) -> Form:
    """The fields of the form for an act on one of these directories, one or more: `directory`, and the pace."""
    return pace_form(title, Field("directory", label, str, paths[0] if paths else "", choices=tuple(paths)))


def balance_form(title: str) -> Form:
    """The fields of the form for a balance; see `policy_of` and `pace_of`."""
    return pace_form(
        title, Field("by", "Even out", str, By.SPACE.value, choices=tuple(each.value for each in By))
    )  # fmt: skip


def policy_of(values: Mapping[str, Any]) -> By:
    """The policy that was entered into `balance_form`."""
    return By(values["by"])


async def plan_directory_move(
    client: AdminClient,
    command: Command,
    broker: int,
    path: str,
    topics: Sequence[tuple[str, tuple[int, ...] | None]],
    pace: Pace | None,
) -> Plan:
    """Plan moving the replicas of topics, or of some of their partitions, to the directory at `path`. Without a pace
    the act only starts the moves. Raises ClientError if the broker has no such replica or directory.
    """
    directories = await _of_broker(client, broker)
    named = [_named(directories, *each) for each in topics]
    wanted = {key for keys in named for key in keys}
    moves = moves_to_directory(directories, path, lambda key: key in wanted)
    under_way = {each.replica: each.target for each in moving_replicas(directories)}
    moves = tuple(each for each in moves if under_way.get(each.replica) != path)
    options: list[str | int] = [] if pace is None else ["--wait", *pace.words()]
    words = [topic if numbers is None else f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics]
    return Plan(
        f"Move replicas to {path}",
        _text(moves),
        command(
            "log-dirs", "move", *words, "--broker", broker, "--to", path,
            *options, "--yes",
        ),
        StartDirectoryMoves(moves) if pace is None else MoveBetweenDirectories(moves, pace),
        _changes(directories, moves),
        verb="Move",
        is_destructive=False,
        problem="" if moves else "every replica is in that directory, or on its way",
        is_done=not moves,
    )  # fmt: skip


async def plan_directory_balance(
    client: AdminClient,
    command: Command,
    broker: int | None,
    by: By,
    pace: Pace,
    tolerance: float = TOLERANCE_DEFAULT,
) -> Plan:
    """Plan evening out the directories of one broker, or of each (None). Raises ClientError while replicas move."""
    found = await _of_brokers(client, broker)
    _refuse_while_moving(found)
    moves = tuple(move for each in found.values() for move in balance(each, by, tolerance))
    where: list[str | int] = [] if broker is None else ["--broker", broker]
    percents = [] if tolerance == TOLERANCE_DEFAULT else ["--tolerance", f"{tolerance * 100:g}"]
    whose = "the directories of each broker" if broker is None else f"the directories of broker {broker}"
    return Plan(
        f"Balance {whose} by {by.value}",
        _text(moves),
        command("log-dirs", "balance", *where, "--by", by.value, *percents, *pace.words(), "--yes"),
        MoveBetweenDirectories(moves, pace),
        _changes([each for theirs in found.values() for each in theirs], moves),
        verb="Balance",
        is_destructive=False,
        problem="" if moves else f"{whose} are balanced, as far as moves of whole replicas can do that",
        is_done=not moves,
    )


async def plan_directory_drain(client: AdminClient, command: Command, broker: int, path: str, pace: Pace) -> Plan:
    """Plan cordoning a directory (KIP-1066), which it then stays, and moving every replica away. Raises ClientError as
    `drain`, and while replicas move.
    """
    directories = await _of_broker(client, broker)
    _refuse_while_moving({broker: directories})
    directory = directory_at(directories, path)
    moves = drain(directories, path)
    changes: list[Change] = []
    cordon: dict[int, tuple[str, ...]] = {}
    if not directory.is_cordoned:
        before = await client.brokers.cordoned_dirs(broker)
        paths = tuple(each for each in (before or "").split(",") if each)
        entry = await client.brokers.entry_of(broker, path, [each.path for each in directories])
        reason = await client.brokers.why_not_cordon(broker, (*paths, entry))
        if reason:
            changes.append(Change(path, note=f"not cordoned, and may get new replicas: {reason}"))
        else:
            cordon[broker] = (*paths, entry)
            changes.append(Change(path, note="cordoned: takes no new replicas"))
    return Plan(
        f"Drain {path} of broker {broker}",
        _text(moves),
        command("log-dirs", "drain", path, "--broker", broker, *pace.words(), "--yes"),
        MoveBetweenDirectories(moves, pace, cordon),
        [*changes, *_changes(directories, moves)],
        verb="Drain",
        is_destructive=False,
        problem="" if moves or cordon else f"nothing to do: no replica is in {path} of broker {broker}",
        is_done=not (moves or cordon),
    )


async def plan_directory_cancel(
    client: AdminClient,
    command: Command,
    wanted: Callable[[BrokerReplica], bool],
    words: Sequence[str | int] = (),
) -> Plan:
    """Plan cancelling the moves `wanted`. Throttles of brokers without other moves are removed."""
    now = await directory_moves_now(client)
    chosen = tuple(each for each in now.moving if each.source and wanted(each.replica))
    busy = {each.replica.broker_id for each in now.moving if each not in chosen}
    concerned = {each.replica.broker_id for each in chosen}
    throttled = tuple(
        each for each in sorted(now.rates) if each not in busy and (each in concerned or not (now.moving or words))
    )
    changes = [Change(str(each.replica), each.target, each.source, _copied(each)) for each in chosen]
    if throttled:
        changes.append(Change("throttle", note=rates_text({each: now.rates[each] for each in throttled})))
    return Plan(
        "Cancel moves between directories",
        f"ends {plural(len(chosen), 'move')}; each replica stays in its directory",
        command("log-dirs", "cancel", *words, "--yes"),
        CancelDirectoryMoves(chosen, throttled),
        changes,
        verb="Cancel",
        problem="" if changes else "no such replica is being moved, and there is no throttle to remove",
        is_done=not changes,
    )


async def _of_brokers(client: AdminClient, broker: int | None) -> dict[int, Directories]:
    outcome = await client.log_dirs.describe(None if broker is None else [broker])
    return outcome.whole()


async def _of_broker(client: AdminClient, broker: int) -> Directories:
    return (await _of_brokers(client, broker))[broker]


def _named(directories: Directories, topic: str, numbers: tuple[int, ...] | None) -> set[TopicPartition]:
    """The replicas of a broker that were named. `orders-3` is partition 3 of `orders`, unless a topic has that name."""
    keys = {
        TopicPartition(each.topic, each.partition)
        for directory in directories
        for each in directory.replicas
    }  # fmt: skip
    found = {key for key in keys if key.topic == topic and (numbers is None or key.partition in numbers)}
    if not found and numbers is None:
        found = {key for key in keys if str(key) == topic}
    missing = [each for each in numbers or () if TopicPartition(topic, each) not in found]
    if not found or missing:
        name = f"{topic}-{missing[0]}" if missing else topic
        broker = directories[0].broker_id if directories else -1
        raise ClientError(
            Failure.INVALID, f"broker {broker} has no replica of it in a directory that is online", what=name
        )
    return found


def _refuse_while_moving(found: Mapping[int, Directories]) -> None:
    """Refuse a second plan: each of two would count replicas that the other moves. Raises ClientError."""
    moving = [each for directories in found.values() for each in moving_replicas(directories)]
    if moving:
        raise ClientError(
            Failure.REFUSED,
            f"{plural(len(moving), 'replica')} on the way between directories, the first is {moving[0].replica}: wait "
            "(`broker-cy log-dirs status`), or cancel with `broker-cy log-dirs cancel`",
        )


def _text(moves: Sequence[DirectoryMove]) -> str:
    brokers = sorted({each.replica.broker_id for each in moves})
    copied = size(sum(each.size_bytes for each in moves))
    where = f" on {brokers_text(brokers)}" if brokers else ""
    return f"moves {plural(len(moves), 'replica')}{where}, copies {copied}"


def _changes(directories: Iterable[LogDir], moves: Sequence[DirectoryMove]) -> list[Change]:
    """The load of each directory of the brokers concerned, before and after; then each replica."""
    listed = list(directories)
    concerned = {each.replica.broker_id for each in moves}
    after = loads_after(listed, moves)
    changes = []
    for each in listed:
        if each.broker_id not in concerned:
            continue
        name = f"{each.path} of broker {each.broker_id}"
        if each.error:
            changes.append(Change(name, note=f"offline: {each.error}"))
            continue
        now = Load(each.size_bytes, len(each.replicas))
        note = "cordoned" if each.is_cordoned else ""
        changes.append(
            Change(name, _load(each, now), _load(each, after[each.broker_id, each.path]), note)
        )  # fmt: skip
    return changes + [
        Change(str(each.replica), each.source, each.target, size(each.size_bytes)) for each in moves
    ]  # fmt: skip


def _load(directory: LogDir, load: Load) -> str:
    """`12 replicas, 1.2 GiB (34 % used)`: of the volume, with all that is on it."""
    text = f"{plural(load.replicas, 'replica')}, {size(load.size_bytes)}"
    if directory.usable_bytes is None or not directory.total_bytes:
        return text
    used = directory.total_bytes - directory.usable_bytes + load.size_bytes - directory.size_bytes
    return f"{text} ({percent(used, directory.total_bytes)} used)"


def _copied(each: MovingReplica) -> str:
    return f"{size(each.copied_bytes)} of {size(each.total_bytes)} copied"
