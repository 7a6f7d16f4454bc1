"""Whether the consumer and streams groups of a world have come to rest: each one is stable, and each partition of the
topics that its members read, or each task, has one owner.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator_services.coordinator_runtime import LoadState
from tests.sim.world.clients.consumers import Consumer
from tests.sim.world.clients.group_readers import Piece, place_of_piece
from tests.sim.world.clients.streams_threads import STATEFUL, StreamsThread, expected_tasks, piece_of_task
from tests.sim.world.groups import SIZE_MAX
from tests.sim.world.machine import standby_replicas

if TYPE_CHECKING:
    from broker_cy.coordinator.group import Group
    from broker_cy.metadata.image import MetadataImage
    from tests.sim.world.world import World

STABLE, NOT_READY = "Stable", "NotReady"


class Restless(NamedTuple):
    """A group, and why it is not at rest."""

    name: str


def restless(world: World) -> list[Restless]:
    """The groups that are not at rest yet."""
    members: dict[str, list[Consumer]] = defaultdict(list)
    for client in world.all_clients:
        if isinstance(client, Consumer):
            members[client.group].append(client)
    found = []
    for group_id, clients in sorted(members.items()):
        reason = _reason(world, group_id, clients)
        if reason is not None:
            found.append(Restless(f"{group_id} ({reason})"))
    return found


def _reason(world: World, group_id: str, clients: list[Consumer]) -> str | None:
    loaded = _loaded(world, group_id)
    if len(loaded) != 1:
        return f"{len(loaded)} brokers have it"
    group, image = loaded[0]
    members = [client for client in clients if client.epoch]
    # A full group refuses the others; a classic one is full first.
    if len(members) < min(len(clients), SIZE_MAX):
        return f"only {sorted(client.name for client in members)} are members"
    assert isinstance(group, ClassicGroup | ConsumerGroup | StreamsGroup)
    count = len(group.members)
    if count != len(members):
        return f"it has {count} members, and {len(members)} of them are alive"
    streams = [client for client in members if isinstance(client, StreamsThread)]
    wanted = expected_tasks(streams[0].application, image) if streams else _read(members, image)
    expected = STABLE if wanted or not streams else NOT_READY
    if group.state_name != expected:
        return f"it is {group.state_name}"
    if behind := [client.name for client in members if client.revoking]:
        return f"{behind} have partitions to give up"
    owned = sorted(piece for client in members for piece in client.owned)
    if owned != sorted(wanted):
        return f"its members have {_names(owned)}, not {_names(wanted)}"
    return _reason_of_copies(world, streams, wanted) if streams else None


def _reason_of_copies(world: World, threads: list[StreamsThread], wanted: set[Piece]) -> str | None:
    """Each task with state has its standby tasks, as far as there are other processes."""
    stateful = STATEFUL[threads[0].application]
    count = min(standby_replicas(world), len({thread.process for thread in threads}) - 1)
    expected = sorted(piece for piece in wanted if piece == piece_of_task(stateful, piece[1]) for _ in range(count))
    found = sorted(piece for thread in threads for piece in thread.standby | thread.closing)
    return None if found == expected else f"its standby tasks are {_names(found)}, not {_names(expected)}"


def _names(pieces: Iterable[Piece]) -> list[str]:
    return sorted(f"{topic}-{partition}" for topic, partition in map(place_of_piece, pieces))


def _loaded(world: World, group_id: str) -> list[tuple[Group, MetadataImage]]:
    """The group in each coordinator that has it, with the metadata of that broker."""
    found = []
    for machine in world.machines.values():
        if machine.server is None or not machine.is_started or not machine.is_broker:
            continue
        broker = machine.server.broker
        for runtime in broker.groups.runtimes.values():
            if runtime.state is LoadState.ACTIVE and (group := runtime.machine.groups.get(group_id)) is not None:
                found.append((group, broker.image))
    return found


def _read(members: list[Consumer], image: MetadataImage) -> set[Piece]:
    """The partitions of all topics that a member reads."""
    return {
        (topic.topic_id, index)
        for topic in image.topics
        if any(_reads(client, topic.name) for client in members)
        for index in topic.partitions
    }


def _reads(client: Consumer, topic: str) -> bool:
    if client.regex is not None:
        return re.fullmatch(client.regex, topic) is not None
    return topic in (client.names or ())
