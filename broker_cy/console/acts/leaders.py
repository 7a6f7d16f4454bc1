"""Acts that elect partition leaders: the preferred ones, or unclean ones if no in-sync replica is left (KIP-460)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicInfo, TopicPartition
from broker_cy.admin.partition_health import EligibleReplicas
from broker_cy.admin.reassignments import Elected, ElectionType
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.console.fields import Field, Form
from broker_cy.console.moving import ids_text
from broker_cy.console.values import optional, parse_partitions, topic_name
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import plural

# Partitions that change their leader in one step: clients of each pause for a moment.
STEP_MAX = 100
NONE_ELIGIBLE = EligibleReplicas((), ())


@dataclass(frozen=True, slots=True)
class Elect:
    """Elects leaders, in steps of at most STEP_MAX partitions."""

    kind: ElectionType
    partitions: tuple[TopicPartition, ...]

    async def run(self, client: AdminClient) -> Report:
        reports = []
        for start in range(0, len(self.partitions), STEP_MAX):
            outcome = await client.reassignments.elect(self.kind, self.partitions[start : start + STEP_MAX])
            elected = {key: each for key, each in outcome.found.items() if each is Elected.NEW_LEADER}
            reports.append((elected, Report.of("", outcome)))
        count = sum(len(elected) for elected, _ in reports)
        return Report(
            f"elected the leaders of {plural(count, 'partition')}",
            tuple(str(key) for elected, _ in reports for key in elected),
            tuple(each for _, report in reports for each in report.failed),
        )


async def plan_preferred(
    client: AdminClient, command: Command, wanted: Callable[[TopicPartition], bool], words: Sequence[str | int] = ()
) -> Plan:
    """Plan to give partitions back to their preferred leader, the first replica, if it is in sync."""
    changes, keys, late = [], [], 0
    for topic in await client.topics.list_all():
        for part in topic.partitions:
            key = TopicPartition(topic.name, part.partition)
            preferred = part.replicas[0] if part.replicas else part.leader_id
            if not wanted(key) or preferred == part.leader_id:
                continue
            if preferred not in part.in_sync_replicas:
                late += 1
                continue
            keys.append(key)
            changes.append(Change(str(key), f"leader {_leader(part.leader_id)}", f"leader {preferred}"))
    skipped = f"; {plural(late, 'preferred leader')} not in sync" if late else ""
    return Plan(
        "Elect preferred leaders",
        f"{plural(len(keys), 'partition')}, at most {STEP_MAX} at a time{skipped}",
        command("leaders", "elect", "--preferred", *words, "--yes"),
        Elect(ElectionType.PREFERRED, tuple(keys)),
        changes,
        verb="Elect",
        is_destructive=False,
        problem="" if keys else f"no partition has to change its leader{skipped}",
        is_done=not keys,
    )


def unclean_form() -> Form:
    """An unclean election is requested by the name of its topic; no screen offers it for one of its rows."""
    return Form(
        "Elect leaders uncleanly",
        [
            Field("topic", "Topic", topic_name),
            Field("partitions", "Partitions", optional(parse_partitions), hint="all without a leader, or 0,3,5-7"),
        ],
        note="For partitions whose in-sync replicas will not come back. Any live replica becomes the leader, and what "
        "only the others had is lost for good.",
    )


async def plan_unclean_of(client: AdminClient, command: Command, values: Mapping[str, Any]) -> Plan:
    """Plan the values entered into `unclean_form`. Raises ClientError as `plan_unclean`."""
    return await plan_unclean(client, command, values["topic"], values["partitions"])


async def plan_unclean(
    client: AdminClient, command: Command, topic: str, partitions: Sequence[int] | None = None
) -> Plan:
    """Plan electing any live replica of the partitions of `topic` that have no leader: records that only the others had
    are lost. The name has to be typed. Raises ClientError for an unknown topic or partition.
    """
    info = (await client.topics.describe([topic])).whole()[topic]
    eligible = (await client.partition_health.eligible([topic])).found
    check_partitions(info, partitions or ())
    offline = [part for part in info.partitions if part.is_offline and (not partitions or part.partition in partitions)]
    chosen = topic if not partitions else f"{topic}:{','.join(map(str, partitions))}"
    known = {part.partition: eligible.get(TopicPartition(topic, part.partition), NONE_ELIGIBLE) for part in offline}
    return Plan(
        f"Elect leaders of {topic} uncleanly",
        f"{plural(len(offline), 'partition')} without a leader: acknowledged records may be lost for good"
        f"{_instead(known.values())}",
        command("leaders", "elect", "--unclean", "--topic", chosen, "--yes"),
        Elect(ElectionType.UNCLEAN, tuple(TopicPartition(topic, part.partition) for part in offline)),
        [
            Change(
                f"{topic}-{part.partition}",
                note=f"replicas {_ids(part.replicas)}, in sync {_ids(part.in_sync_replicas)}, "
                f"eligible {_ids(known[part.partition].eligible)}, "
                f"last known eligible {_ids(known[part.partition].last_known)}, offline {_ids(part.offline_replicas)}",
            )
            for part in offline
        ],
        typed=topic,
        verb="Elect",
        problem="" if offline else f"no partition of {chosen} is without a leader",
    )


def _instead(known: Iterable[EligibleReplicas]) -> str:
    """The alternative without loss, if any (KIP-966)."""
    found = [each.eligible for each in known if each.eligible]
    if not found:
        return ""
    brokers = ids_text("broker", sorted({each for ids in found for each in ids}))
    return f"; waiting for {brokers}, with an eligible replica of {plural(len(found), 'partition')}, loses nothing"


def check_partitions(topic: TopicInfo, partitions: Sequence[int]) -> None:
    """Raise ClientError unless the topic has these partitions."""
    for number in partitions:
        if number >= len(topic.partitions):
            reason = f"it has no partition {number}; it has 0 to {len(topic.partitions) - 1}"
            raise ClientError(Failure.INVALID, reason, what=f"topic {topic.name}")


def _leader(leader_id: int) -> str:
    return "none" if leader_id < 0 else str(leader_id)


def _ids(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas)) or "none"
