"""Acts that move replicas: drain a broker, fill a new one, balance, and moves that a user listed; and cancelling them.

Lists of moves are read and written in the format of kafka-reassign-partitions:
`{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}`. `"log_dirs": ["any", "/d2"]`
beside the replicas names the directory of each: a new replica is created there, and one that is elsewhere moves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.brokers import ClusterReplicas
from broker_cy.admin.log_dirs import BrokerReplica
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.move_progress import MoveProgress
from broker_cy.admin.placement import Move, Placement, moves_to
from broker_cy.admin.throttles import Throttle
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.listed_directories import misplaced, prefer_directories, settle_directories
from broker_cy.console.acts.pace import PACE_DEFAULT, LongAct, Pace
from broker_cy.console.acts.plan import Change, Command, Failed, Plan, Report
from broker_cy.console.moving import NO_THROTTLE, brokers_text, throttle_now, throttle_text
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import plural, size

_VERSION = 1
# Kafka's word for a replica whose directory its broker chooses.
ANY_DIR = "any"


@dataclass(frozen=True, slots=True)
class Wish:
    """The goal of a plan of moves: exactly one of the fields is set. `moves_max` limits `add` and `balance`; with
    `is_shrinking`, `drain` lets partitions lose replicas that have no other place; `topics`, with their partitions or
    all of them (None), belong to `replication_factor`; `directories` belong to `listed`.
    """

    drain: tuple[int, ...] = ()
    add: tuple[int, ...] = ()
    is_balance: bool = False
    listed: tuple[tuple[TopicPartition, tuple[int, ...]], ...] = ()
    directories: tuple[tuple[BrokerReplica, str], ...] = ()
    moves_max: int | None = None
    is_shrinking: bool = False
    replication_factor: int | None = None
    topics: tuple[tuple[str, tuple[int, ...] | None], ...] = ()

    def is_chosen(self, key: TopicPartition) -> bool:
        """Whether `topics` have the partition."""
        return any(
            key.topic == topic and (numbers is None or key.partition in numbers) for topic, numbers in self.topics
        )

    def words(self, file: str = "moves.json") -> list[str | int]:
        """The options of the command line that stand for it."""
        limit: list[str | int] = [] if self.moves_max is None else ["--max-moves", self.moves_max]
        if self.replication_factor is not None:
            topics: list[str | int] = []
            for topic, numbers in self.topics:
                topics += ["--topic", topic if numbers is None else f"{topic}:{','.join(map(str, numbers))}"]
            return ["--replication-factor", self.replication_factor, *topics]
        if self.drain:
            return [word for each in self.drain for word in ("--drain", each)]
        if self.add:
            return [*(word for each in self.add for word in ("--add", each)), *limit]
        return ["--balance", *limit] if self.is_balance else [file]


@dataclass(frozen=True, slots=True)
class MoveReplicas(LongAct):
    """Moves replicas; first cordons the brokers `cordon`, so that they get no new replicas meanwhile. `stuck` are moves
    that are not started because they would never complete: no leader has the records.
    """

    moves: tuple[Move, ...]
    pace: Pace = PACE_DEFAULT
    cordon: tuple[int, ...] = ()
    stuck: tuple[Move, ...] = ()
    directories: tuple[tuple[BrokerReplica, str], ...] = ()

    @property
    def steps(self) -> int:
        return len(self.moves)

    async def follow(self, client: AdminClient, progress: Callable[[MoveProgress], None]) -> Report:
        for broker in self.cordon:
            await client.brokers.cordon(broker)
        run = client.mover.of(
            self.moves, concurrent=self.pace.concurrent, throttle_bytes_per_s=self.pace.throttle_bytes_per_s
        )
        failed: list[Failed] = []
        if self.directories:
            await prefer_directories(client, self.directories)
        try:
            await run.run(progress)
        except ClientError as error:
            failed.append(Failed(f"{plural(len(run.untouched), 'partition')} that did not move", error))
        failed += [Failed(str(key), error) for key, error in run.failed.items()]
        failed += [Failed(f"left behind: {error.what}", error) for error in run.left_behind]
        failed += [Failed(str(move.partition), _no_leader(move)) for move in self.stuck]
        said = f"moved {plural(len(run.done), 'partition')}, {size(sum(move.copied_bytes for move in run.done))}"
        report = Report(said, tuple(str(move.partition) for move in run.done), tuple(failed))
        if failed or not self.directories:
            return report
        return await settle_directories(client, self.directories, self.pace, report, progress)


@dataclass(frozen=True, slots=True)
class CancelMoves:
    """Cancels moves, and removes the throttles."""

    partitions: tuple[TopicPartition, ...]
    throttle: Throttle

    async def run(self, client: AdminClient) -> Report:
        outcome = await client.reassignments.alter(dict.fromkeys(self.partitions))
        said = f"cancelled the reassignment of {plural(len(outcome.found), 'partition')}"
        report = Report.of(said, outcome)
        if not self.throttle.is_set:
            return report
        removed = await client.throttles.remove_all(self.throttle)
        left = tuple(Failed(str(key), error) for key, error in removed.failed.items())
        return Report(f"{said}; removed the throttle", report.done, report.failed + left)


def moves_for(wish: Wish, now: ClusterReplicas) -> tuple[Move, ...]:
    """The moves that reach the goal. Raises ClientError, which says why the goal cannot be reached."""
    if wish.listed:
        known = {each.broker_id for each in now.brokers if each.info is not None}
        for key, replicas in wish.listed:
            missing = [each for each in replicas if each not in known]
            if missing:
                names = ", ".join(map(str, sorted(known)))
                raise ClientError(
                    Failure.INVALID, f"the cluster has no broker {missing[0]}; it has {names}", what=f"partition {key}"
                )
        return moves_to(dict(wish.listed), now.partitions)
    placement = Placement(now.slots(), now.partitions.values())
    if wish.replication_factor is not None:
        for topic, numbers in wish.topics:
            for key in (TopicPartition(topic, each) for each in numbers or (0,)):
                if key not in now.partitions:
                    raise ClientError(Failure.INVALID, "the cluster has no such partition", what=f"partition {key}")
        placement.resize(wish.replication_factor, wish.is_chosen)
    elif wish.drain:
        placement.drain(wish.drain, shrink=wish.is_shrinking)
    elif wish.add:
        placement.fill(wish.add, wish.moves_max)
    else:
        placement.balance(wish.moves_max)
    return placement.moves()


async def plan_moves(client: AdminClient, command: Command, wish: Wish, pace: Pace) -> Plan:
    """Plan moves, with old and new replicas of each partition. Raises ClientError if what is wished cannot be reached,
    or if moves are under way.
    """
    now = await client.brokers.replicas()
    await _refuse_while_moving(client)
    moves, stuck = _split(moves_for(wish, now), now)
    elsewhere = await misplaced(client, wish.directories)
    title = _title(wish)
    return Plan(
        title,
        moves_text(moves),
        command("reassign", "apply", *wish.words(), *pace.words(), "--yes"),
        MoveReplicas(moves, pace, stuck=stuck, directories=wish.directories if moves or elsewhere else ()),
        [*changes_of(moves), *_stuck_changes(stuck), *elsewhere],
        verb="Move",
        is_destructive=False,
        problem="" if moves or elsewhere else _stuck_problem(stuck) or "every replica is where it should be",
        is_done=not (moves or stuck or elsewhere),
    )


async def plan_drain(
    client: AdminClient,
    command: Command,
    brokers: Sequence[int],
    pace: Pace,
    *,
    cordon: bool = True,
    shrink: bool = False,
) -> Plan:
    """Plan moving every replica away from brokers; with `shrink` those that have no other place are removed. With
    `cordon` the brokers first refuse new ones, if they are in service and can be cordoned; they stay so afterwards.
    Raises ClientError as `plan_moves`.
    """
    now = await client.brokers.replicas()
    await _refuse_while_moving(client)
    moves, stuck = _split(moves_for(Wish(drain=tuple(brokers), is_shrinking=shrink), now), now)
    to_cordon = []
    changes: list[Change] = []
    for broker in brokers:
        state = now.broker(broker)
        if not cordon or not state.is_in_service or state.is_cordoned:
            continue
        reason = await client.brokers.why_not_cordon(broker)
        if not reason:
            to_cordon.append(broker)
        note = f"not cordoned, and may get new replicas: {reason}" if reason else "cordoned: takes no new replicas"
        changes.append(Change(f"broker {broker}", note=note))
    options: list[str | int] = [] if cordon else ["--no-cordon"]
    options += ["--shrink"] if shrink else []
    return Plan(
        f"Drain {brokers_text(brokers)}",
        moves_text(moves),
        command("brokers", "drain", *brokers, *pace.words(), *options, "--yes"),
        MoveReplicas(moves, pace, tuple(to_cordon), stuck),
        [*changes, *changes_of(moves), *_stuck_changes(stuck)],
        verb="Drain",
        is_destructive=False,
        problem=""
        if moves or to_cordon
        else _stuck_problem(stuck) or f"nothing to do: no replica is on {brokers_text(brokers)}",
        is_done=not (moves or to_cordon or stuck),
    )


async def plan_cancel(
    client: AdminClient, command: Command, wanted: Callable[[TopicPartition], bool], words: Sequence[str | int] = ()
) -> Plan:
    """Plan cancelling the moves of the partitions `wanted`; throttles are removed if no other move is under way."""
    every = await client.reassignments.list_all()
    chosen = [each for each in every if wanted(each.partition)]
    throttle = await throttle_now(client, every) if len(chosen) == len(every) else NO_THROTTLE
    changes = [Change(str(each.partition), _ids(each.replicas), _ids(each.before)) for each in chosen]
    if throttle.is_set:
        changes.append(Change("throttle", note=throttle_text(throttle)))
    return Plan(
        "Cancel reassignments",
        f"old replicas of {plural(len(chosen), 'partition')} stay; what was copied is discarded",
        command("reassign", "cancel", *words, "--yes"),
        CancelMoves(tuple(each.partition for each in chosen), throttle),
        changes,
        verb="Cancel",
        problem="" if changes else "no such partition is being moved, and there is no throttle to remove",
        is_done=not changes,
    )


def _split(moves: Sequence[Move], now: ClusterReplicas) -> tuple[tuple[Move, ...], tuple[Move, ...]]:
    """The moves that can be made, and those of partitions without a leader: new replicas copy from that."""
    able: list[Move] = []
    stuck: list[Move] = []
    for move in moves:
        (stuck if move.added and move.partition in now.leaderless else able).append(move)
    return tuple(able), tuple(stuck)


def _no_leader(move: Move) -> ClientError:
    return ClientError(
        Failure.REFUSED,
        f"it has no leader to copy from: start a broker that has it ({_ids(move.before)}), elect another replica "
        "(`broker-cy leaders elect --unclean`), or delete the topic",
        what=f"partition {move.partition}",
    )


def _stuck_changes(stuck: Sequence[Move]) -> list[Change]:
    return [Change(str(move.partition), _ids(move.before), note="stays: no leader to copy from") for move in stuck]


def _stuck_problem(stuck: Sequence[Move]) -> str:
    return f"{_no_leader(stuck[0])} ({plural(len(stuck), 'such partition')})" if stuck else ""


async def _refuse_while_moving(client: AdminClient) -> None:
    """Refuse a second plan: each of two concurrent plans would count replicas that the other removes. Raises
    ClientError.
    """
    moving = await client.reassignments.list_all()
    if moving:
        raise ClientError(
            Failure.REFUSED,
            f"{plural(len(moving), 'reassignment')} under way, the first of {moving[0].partition}: wait, or cancel "
            "with `broker-cy reassign cancel`",
        )


def moves_text(moves: Sequence[Move]) -> str:
    """`moves 4 partitions, copies 51.0 MiB`."""
    return f"moves {plural(len(moves), 'partition')}, copies {size(sum(move.copied_bytes for move in moves))}"


def changes_of(moves: Sequence[Move]) -> list[Change]:
    return [
        Change(
            str(move.partition),
            _ids(move.before),
            _ids(move.after),
            size(move.copied_bytes) + ("" if len(move.before) == len(move.after) else ", other number of replicas"),
        )
        for move in moves
    ]


def read_moves(text: str) -> Wish:
    """Read moves from JSON. Raises ClientError, which names the partition and what is expected."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ClientError(Failure.INVALID, f"not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise ClientError(Failure.INVALID, f'an object with "version": {_VERSION} and "partitions" is expected')
    partitions = document.get("partitions")
    if not isinstance(partitions, list) or not partitions:
        raise ClientError(Failure.INVALID, '"partitions": a list of one or more partitions is expected')
    found: dict[TopicPartition, tuple[int, ...]] = {}
    directories: list[tuple[BrokerReplica, str]] = []
    for number, each in enumerate(partitions):
        key, replicas = _read_move(number, each)
        if key in found:
            raise ClientError(Failure.INVALID, "it is listed twice", what=f"partition {key}")
        found[key] = replicas
        directories += _read_directories(number, each, key, replicas)
    return Wish(listed=tuple(found.items()), directories=tuple(directories))


def _read_directories(
    number: int, each: Any, key: TopicPartition, replicas: tuple[int, ...]
) -> list[tuple[BrokerReplica, str]]:
    paths = each.get("log_dirs") or [ANY_DIR] * len(replicas)
    if not isinstance(paths, list) or len(paths) != len(replicas) or not all(isinstance(path, str) for path in paths):
        raise ClientError(
            Failure.INVALID,
            f'"log_dirs": a list with a path, or "{ANY_DIR}", for each replica is expected',
            what=f"partitions[{number}]",
        )
    return [(BrokerReplica(broker, key), path) for broker, path in zip(replicas, paths, strict=True) if path != ANY_DIR]


def _read_move(number: int, each: Any) -> tuple[TopicPartition, tuple[int, ...]]:
    expected = '{"topic": NAME, "partition": NUMBER, "replicas": [BROKER, ..]} is expected'
    if not isinstance(each, dict):
        raise ClientError(Failure.INVALID, expected, what=f"partitions[{number}]")
    topic, partition, replicas = each.get("topic"), each.get("partition"), each.get("replicas")
    if not isinstance(topic, str) or not isinstance(replicas, list) or not replicas:
        raise ClientError(Failure.INVALID, expected, what=f"partitions[{number}]")
    if not isinstance(partition, int) or not all(map(_is_id, [partition, *replicas])):
        raise ClientError(Failure.INVALID, expected, what=f"partitions[{number}]")
    return TopicPartition(topic, partition), tuple(replicas)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def moves_document(moves: Sequence[Move], directories: Sequence[tuple[BrokerReplica, str]] = ()) -> dict[str, object]:
    """Moves as kafka-reassign-partitions reads them; `before` and `copied_bytes` are for people and other programs."""
    paths = dict(directories)
    return {
        "version": _VERSION,
        "partitions": [
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "replicas": list(move.after),
                "log_dirs": [paths.get(BrokerReplica(each, move.partition), ANY_DIR) for each in move.after],
                "before": list(move.before),
                "copied_bytes": move.copied_bytes,
            }
            for move in moves
        ],
    }


def _title(wish: Wish) -> str:
    if wish.replication_factor is not None:
        return f"Change to {plural(wish.replication_factor, 'replica')}"
    if wish.drain:
        return f"Drain {brokers_text(wish.drain)}"
    if wish.add:
        return f"Fill {brokers_text(wish.add)}"
    return "Balance replicas" if wish.is_balance else "Move replicas"


def _ids(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))
