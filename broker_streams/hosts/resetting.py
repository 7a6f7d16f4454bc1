"""Resets an application, as Kafka's kafka-streams-application-reset: it begins again at chosen offsets of its inputs,
without internal topics, and without state and snapshots in the directories of this host.

A plan is made and shown first. It is refused while the group has members.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.group_values import GroupDescription
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.reset import ResetRule, ResetStep
from broker_cy.core.errors import ErrorCode
from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.topology import Source, Topology
from broker_streams.state.directory import StateDirectory, default_root

# Names of internal topics behind the application id (Kafka's StreamsResetter).
_INTERNAL: Final = re.compile(
    r".*-(?:changelog|repartition|subscription-registration-topic|subscription-response-topic)"
    r"|.*-KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d+-topic",
    re.DOTALL,
)


@dataclass(frozen=True)
class ResetPlan:
    """The effect of a reset. `forgotten` are committed offsets of internal topics. `state` and `snapshots` are
    directories of the application; None: there is none.
    """

    application_id: str
    steps: tuple[ResetStep, ...]
    internal: tuple[str, ...]
    forgotten: tuple[TopicPartition, ...]
    state: Path | None
    snapshots: Path | None

    @property
    def directories(self) -> tuple[Path, ...]:
        return tuple(each for each in (self.state, self.snapshots) if each is not None)


@dataclass(frozen=True)
class Wanted:
    """The choices of the user; None: those of the application or of its group. `state_dir` and `snapshot_dir` have
    the directories of all applications; a `state_dir` of None is the default one.
    """

    rule: ResetRule
    inputs: Sequence[str] | None = None
    internal: Sequence[str] | None = None
    state_dir: Path | None = None
    snapshot_dir: Path | None = None


async def plan_reset(
    client: AdminClient, application_id: str, wanted: Wanted, topology: Topology | None = None
) -> ResetPlan:
    """Raises ClientError: the group has members or is no group of an application, the id is no name of a directory, the
    inputs are not known, an input does not exist, an internal topic is none, or a transaction stays open.
    """
    if application_id in ("", ".", "..") or "/" in application_id:
        raise ClientError(Failure.INVALID, f"application id {application_id!r} is no name of a directory")
    group = await _described(client, application_id)
    existing = {topic.name for topic in await client.topics.list_all()}
    inputs = sorted(set(wanted.inputs) if wanted.inputs is not None else _inputs(topology, group, application_id))
    found = await _internal(client, application_id, existing, topology, group)
    internal = _chosen_internal(found, wanted.internal, application_id)
    keys = [key for topic in inputs for key in await client.records.partitions(topic)]
    # Offsets of a transaction that is still open would come after the new ones. A driver on Spark is no member.
    committed = (await client.group_offsets.fetch([application_id], stable=True)).whole()[application_id]
    steps = await client.reset.plan(application_id, wanted.rule, keys)
    forgotten = sorted(key for key in committed if key.topic in internal)
    state = _directory(wanted.state_dir or default_root(), application_id)
    snapshots = None if wanted.snapshot_dir is None else _directory(wanted.snapshot_dir, application_id)
    return ResetPlan(application_id, steps, tuple(internal), tuple(forgotten), state, snapshots)


async def apply_reset(client: AdminClient, plan: ResetPlan) -> None:
    """Raises ClientError. StreamsError: a process on this host has the state. After an error in the middle, another
    reset completes it: do not start the application before it succeeded.
    """
    # First of all: an application without its directories restores them, so nothing is lost if the rest fails.
    if plan.state is not None:
        delete_state(plan.state, plan.application_id)
    if plan.snapshots is not None:
        shutil.rmtree(plan.snapshots)
    if plan.steps:
        (await client.reset.apply(plan.application_id, plan.steps)).whole()
    if plan.forgotten:
        (await client.positions.delete(plan.application_id, plan.forgotten)).whole()
    if plan.internal:
        (await client.topics.delete(plan.internal)).whole()


async def _described(client: AdminClient, application_id: str) -> GroupDescription | None:
    described = await client.groups.describe([application_id])
    group = described.found.get(application_id)
    if group is None and described.failed[application_id].code is not ErrorCode.GROUP_ID_NOT_FOUND:
        raise described.failed[application_id]
    return group


def _inputs(topology: Topology | None, group: GroupDescription | None, application_id: str) -> set[str]:
    """The topics of the user that tasks read; those of global stores have no committed offsets."""
    if topology is not None:
        return {
            topic
            for node in topology.nodes
            if isinstance(node, Source) and node.name not in topology.global_nodes
            for topic in node.topics
            if not topology.is_internal(topic)
        }
    if group is not None and group.topology is not None:
        return {topic for part in group.topology.subtopologies for topic in part.source_topics}
    kind = "does not exist" if group is None else f"is a {group.group_type} group, which does not know its topology"
    raise ClientError(
        Failure.INVALID, f"the group {kind}: name --input-topics, or give APP.py", what=f"group {application_id}"
    )


async def _internal(
    client: AdminClient,
    application_id: str,
    existing: set[str],
    topology: Topology | None,
    group: GroupDescription | None,
) -> list[str]:
    """The internal topics that exist: those of the topology, and those with a name of the application's. Topics of
    another group whose name begins with this application's are not among the latter.
    """
    named: set[str] = set()
    if topology is not None:
        named |= {topology.decorated(each.name, application_id) for each in topology.repartition_topics}
        changelogs = (topology.changelog(each, application_id) for each in topology.stores if not each.source_topic)
        named |= {each for each in changelogs if each is not None}
    if group is not None and group.topology is not None:
        for part in group.topology.subtopologies:
            named |= {each.name for each in (*part.repartition_sources, *part.changelogs)}
    prefix = f"{application_id}-"
    others = [each.group_id for each in await client.groups.listed()]
    foreign = tuple(f"{each}-" for each in others if each.startswith(prefix))
    sources = (
        {topic for node in topology.nodes if isinstance(node, Source) for topic in node.topics} if topology else ()
    )
    for topic in existing - set(sources):
        if topic.startswith(prefix) and _INTERNAL.fullmatch(topic) and not topic.startswith(foreign):
            named.add(topic)
    # A store may have a topic of the user as its changelog.
    return sorted(each for each in named & existing if each.startswith(prefix))


def _chosen_internal(found: Sequence[str], given: Iterable[str] | None, application_id: str) -> list[str]:
    if given is None:
        return list(found)
    for each in given:
        if each not in found:
            known = ", ".join(found) or "none"
            raise ClientError(
                Failure.INVALID,
                f"--internal-topics: {each} is no internal topic of {application_id}; those are {known}",
            )
    return sorted(set(given))


def _directory(root: Path, application_id: str) -> Path | None:
    """The directory of an application; None: there is none."""
    found = root / application_id
    return found if found.is_dir() else None


def delete_state(path: Path, application_id: str) -> None:
    """Raises StreamsError: a process has a task's directory."""
    StateDirectory(path.parent, application_id).clean(time.time_ns() // 1_000_000, 0)
    left = sorted(each.name for each in path.iterdir() if each.is_dir())
    if left:
        raise StreamsError(f"{path / left[0]} is in use: stop the process that has the task; nothing else was reset")
    shutil.rmtree(path)
