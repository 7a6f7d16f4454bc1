"""The flows of mirrors as consoles show them. Those that copy are reported by processes of broker-mirror, and by the
groups that these have in the target; links are run by the brokers of the target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from broker_cy.admin.group_values import WITHOUT_MEMBERS, GroupListing
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.mirror_links import LinkPartition, MirrorTopic
from broker_cy.client.mirror_status import FlowStatus, MirrorStatus, PartitionState, longest_lag_ms, records_behind
from broker_cy.console.figures import Fact
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import UNKNOWN, count, duration, plural, short, size
from broker_cy.reporting.tone import Tone

COPY, LINK = "copy", "link"
RUNNING, STARTING, PAUSED, WAITING, FAILED, ABSENT = "running", "starting", "paused", "waiting", "failed", "no process"
PROBLEM, LOOP, CIRCLE, RESTART = "problem", "loop", "circle", "restart"
GROUP_PREFIX: Final = "broker-mirror-"
"""The begin of the group of the processes of a flow; the aliases of source and target follow."""
PROTOCOL_TYPE: Final = "mirror"
NOTES_MAX: Final = 2_000
"""Notes of a flow that are kept; further ones are counted in one."""
# The state of a flow is the first that one of its parts has; notes name parts that do not run.
_ORDER: Final = (RUNNING, STARTING, FAILED, WAITING, PAUSED)
_TONES: Final = {
    RUNNING: Tone.GOOD,
    STARTING: Tone.NOTED,
    PAUSED: Tone.NOTED,
    WAITING: Tone.BAD,
    FAILED: Tone.BAD,
    ABSENT: Tone.BAD,
}


class FlowPartition(NamedTuple):
    """A partition of the source and its copy. None: not known. `position` is the next offset of the source to copy."""

    topic: str
    partition: int
    remote_topic: str
    position: int | None
    end: int | None
    lag_records: int | None
    lag_ms: int | None
    state: str
    problem: str | None

    @property
    def id(self) -> str:
        """The partition in the target, such as A.orders-3."""
        return f"{self.remote_topic}-{self.partition}"


class Note(NamedTuple):
    """A sentence about a flow. `kind` is problem, restart, loop (the topic comes from the target: it is not copied
    back) or circle (a loop of two flows with IdentityReplicationPolicy, for which neither copies the topic).
    """

    kind: str
    subject: str
    text: str
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class MirrorFlow:
    """A flow over all its processes, or a link over all its topics.

    `name` is SOURCE->TARGET, or the name of the link. `processes` are those that report the flow; None for links, and
    if none does. Rates are of one second, None if they are not known. `heartbeat_at_ms` is the time of the newest
    heartbeat of the source that was copied: heartbeats show the lag without a process, if a flow into the source emits
    them.
    """

    name: str
    kind: str
    state: str
    processes: int | None = None
    partitions: tuple[FlowPartition, ...] = ()
    notes: tuple[Note, ...] = ()
    groups: int | None = None
    records_per_s: float | None = None
    bytes_per_s: float | None = None
    restarts: int = 0
    checkpoint_ms: int | None = None
    checkpoint_at_ms: int | None = None
    heartbeat_at_ms: int | None = None
    seen_at_ms: int = 0

    @property
    def is_link(self) -> bool:
        return self.kind == LINK

    @property
    def is_reported(self) -> bool:
        """Whether a process, or the cluster for a link, reports the flow; of others only the state is known."""
        return self.is_link or self.processes is not None

    @property
    def tone(self) -> Tone:
        return _TONES[self.state]

    @property
    def lag_records(self) -> int | None:
        return records_behind(self.partitions)

    @property
    def lag_ms(self) -> int | None:
        return longest_lag_ms(self.partitions)

    @property
    def heartbeat_age_ms(self) -> int | None:
        return _age(self.seen_at_ms, self.heartbeat_at_ms)

    @property
    def checkpoint_age_ms(self) -> int | None:
        return _age(self.seen_at_ms, self.checkpoint_at_ms)

    @property
    def is_stopped(self) -> bool:
        """Whether nothing is copied, and the flow is not paused."""
        return self.state in (WAITING, FAILED, ABSENT)

    @property
    def trouble(self) -> str:
        """The state, with the first problem."""
        first = next((f": {each.subject}: {each.text}" for each in self.notes if each.kind == PROBLEM), "")
        return self.state + first

    @property
    def problems(self) -> int:
        return sum(each.kind in (PROBLEM, CIRCLE) for each in self.notes)

    @property
    def loops(self) -> int:
        return sum(each.kind in (LOOP, CIRCLE) for each in self.notes)

    @property
    def topics(self) -> int:
        return len({each.topic for each in self.partitions})


def _age(now_ms: int, at_ms: int | None) -> int | None:
    return None if at_ms is None else max(0, now_ms - at_ms)


@dataclass(frozen=True, slots=True)
class MirrorFlows:
    """All flows, by name. `failed` are the processes that did not answer, with the reason."""

    flows: tuple[MirrorFlow, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)

    def flow(self, name: str) -> MirrorFlow | None:
        return next((each for each in self.flows if each.name == name), None)

    @property
    def remark(self) -> str:
        """A note on processes that do not answer; empty if all do."""
        if not self.failed:
            return ""
        first, reason = next(iter(self.failed.items()))
        more = (
            f", and {plural(len(self.failed) - 1, 'other process', 'other processes')}" if len(self.failed) > 1 else ""
        )
        return f"{first} does not answer ({reason}){more}"


class Reading(NamedTuple):
    """The result of one look. `heartbeats` are the times of the newest heartbeats by topic. `topics` are all names."""

    at_ms: int
    statuses: Mapping[str, MirrorStatus]
    failed: Mapping[str, str]
    groups: Sequence[GroupListing]
    topics: Collection[str]
    heartbeats: Mapping[str, int]
    links: Sequence[MirrorTopic]
    link_partitions: Mapping[TopicPartition, LinkPartition]


def flows_of(found: Reading) -> MirrorFlows:
    """Return the flows of a look."""
    flows = {each.name: each for each in _copying(found)}
    for group in found.groups:
        pair = pair_of(group, found.topics)
        if pair is not None and "->".join(pair) not in flows:
            name, beat_ms = "->".join(pair), found.heartbeats.get(f"{pair[0]}.heartbeats")
            state = ABSENT if group.state in WITHOUT_MEMBERS else RUNNING
            flows[name] = MirrorFlow(name, COPY, state, heartbeat_at_ms=beat_ms, seen_at_ms=found.at_ms)
    flows |= {each.name: each for each in _linked(found)}
    return MirrorFlows(tuple(flows[name] for name in sorted(flows)), dict(found.failed))


def pair_of(group: GroupListing, topics: Collection[str]) -> tuple[str, str] | None:
    """Return the aliases of source and target of the group of a flow; None for other groups. Aliases may have dashes:
    the source is the one whose topic of offsets the target has.
    """
    if group.protocol_type != PROTOCOL_TYPE or not group.group_id.startswith(GROUP_PREFIX):
        return None
    words = group.group_id.removeprefix(GROUP_PREFIX).split("-")
    pairs = [("-".join(words[:at]), "-".join(words[at:])) for at in range(1, len(words))]
    pairs = [pair for pair in pairs if all(pair)]
    return next((pair for pair in pairs if f"mm2-offsets.{pair[0]}.internal" in topics), next(iter(pairs), None))


# ---------------------------------------------------------------------------------------------------- copying


def _copying(found: Reading) -> Iterable[MirrorFlow]:
    by_name: dict[str, list[tuple[str, FlowStatus]]] = {}
    for place, status in found.statuses.items():
        for flow in status.flows:
            # A flow of this kind has no records to copy by a process: its brokers fetch them.
            if flow.kind == COPY:
                by_name.setdefault(flow.name, []).append((place, flow))
    return [_merged(found, name, parts) for name, parts in by_name.items()]


def _merged(found: Reading, name: str, parts: Sequence[tuple[str, FlowStatus]]) -> MirrorFlow:
    statuses = [status for _, status in parts]
    states = {status.state for status in statuses}
    partitions = [_partition(each) for status in statuses for each in status.partitions]
    partitions.sort(key=lambda each: (each.topic, each.partition))
    beats = [each.remote_topic for each in partitions if each.topic == "heartbeats"]
    beats.append(f"{statuses[0].source}.heartbeats")
    timed = [status for status in statuses if status.checkpoint_at_ms is not None]
    newest = max(timed, key=lambda status: status.checkpoint_at_ms or 0, default=None)
    return MirrorFlow(
        name,
        COPY,
        next((each for each in _ORDER if each in states), ABSENT),
        processes=len(parts),
        partitions=tuple(partitions),
        notes=_cut([note for place, status in parts for note in _notes(place, status, len(parts) > 1)]),
        groups=max(len(status.groups) for status in statuses),
        records_per_s=sum(status.records_per_s for status in statuses),
        bytes_per_s=sum(status.bytes_per_s for status in statuses),
        restarts=sum(status.restarts for status in statuses),
        checkpoint_ms=None if newest is None else newest.checkpoint_ms,
        checkpoint_at_ms=None if newest is None else newest.checkpoint_at_ms,
        heartbeat_at_ms=next((found.heartbeats[each] for each in beats if each in found.heartbeats), None),
        seen_at_ms=found.at_ms,
    )


def _partition(part: PartitionState) -> FlowPartition:
    return FlowPartition(
        part.topic,
        part.partition,
        part.remote_topic,
        part.source_position,
        part.source_end,
        part.lag_records,
        part.lag_ms,
        WAITING if part.waits else STARTING if part.source_position is None else RUNNING,
        part.problem,
    )


def _notes(place: str, status: FlowStatus, is_shared: bool) -> list[Note]:
    where = f" ({place})" if is_shared else ""
    circles = {key: topic for topic, key in status.circles.items()}
    notes = [
        Note(PROBLEM, what, text + where) if what not in circles else Note(CIRCLE, circles[what], text)
        for what, text in status.problems.items()
        # Each process finds the same circles.
        if what not in circles or not is_shared or status.leads
    ]
    notes += [
        Note(PROBLEM, f"{each.topic}-{each.partition}", each.problem + where)
        for each in status.partitions
        if each.problem is not None
    ]
    if not is_shared or status.leads:
        loops = [topic for topic in status.loops if topic not in circles.values()]
        notes += [Note(LOOP, topic, f"it comes from {status.target}, and is not copied back") for topic in loops]
    return notes + [Note(RESTART, "flow", each.cause + where, each.time_ms) for each in status.last_restarts[::-1]]


def _cut(notes: list[Note]) -> tuple[Note, ...]:
    if len(notes) <= NOTES_MAX:
        return tuple(notes)
    return (*notes[:NOTES_MAX], Note(notes[NOTES_MAX].kind, "others", f"{count(len(notes) - NOTES_MAX)} more"))


# ---------------------------------------------------------------------------------------------------- links


def _linked(found: Reading) -> Iterable[MirrorFlow]:
    by_link: dict[str, list[MirrorTopic]] = {}
    for topic in found.links:
        if topic.link is not None:
            by_link.setdefault(topic.link, []).append(topic)
    return [_link(found, name, topics) for name, topics in by_link.items()]


def _link(found: Reading, name: str, topics: Sequence[MirrorTopic]) -> MirrorFlow:
    partitions = [
        _link_partition(topic, index, found.link_partitions.get(TopicPartition(topic.name, index)))
        for topic in topics
        for index in range(topic.partitions)
    ]
    states = {each.state for each in partitions}
    names = {topic.name for topic in topics}
    known = [each for each in found.link_partitions.values() if each.topic in names]
    return MirrorFlow(
        name,
        LINK,
        next((each for each in _ORDER if each in states), STARTING),
        partitions=tuple(partitions),
        notes=_cut([Note(PROBLEM, each.id, each.problem) for each in partitions if each.problem is not None]),
        records_per_s=sum(each.records_per_s for each in known) if known else None,
        bytes_per_s=sum(each.bytes_per_s for each in known) if known else None,
        seen_at_ms=found.at_ms,
    )


def _link_partition(topic: MirrorTopic, index: int, part: LinkPartition | None) -> FlowPartition:
    if part is None:
        state = PAUSED if topic.is_paused else STARTING
        return FlowPartition(topic.source, index, topic.name, None, None, None, None, state, None)
    return FlowPartition(
        topic.source,
        index,
        topic.name,
        part.end,
        part.source_end,
        part.lag_records,
        part.lag_ms,
        RUNNING if part.state == "active" else part.state,
        part.reason or None,
    )


# ---------------------------------------------------------------------------------------------------- one flow


def facts_of(flow: MirrorFlow) -> list[Fact]:
    """Return the facts of a flow."""
    facts = [Fact("kind", flow.kind), Fact("state", flow.state, flow.tone)]
    if not flow.is_reported:
        return [*facts, Fact("processes", "none that this console knows", Tone.NOTED), _heartbeat(flow)]
    if not flow.is_link:
        facts.append(Fact("processes", str(flow.processes)))
    facts += [
        Fact("topics", count(flow.topics)),
        Fact("partitions", count(len(flow.partitions))),
        Fact("lag", UNKNOWN if flow.lag_records is None else plural(flow.lag_records, "record")),
        Fact("lag time", UNKNOWN if flow.lag_ms is None else duration(flow.lag_ms)),
        Fact("records/s", UNKNOWN if flow.records_per_s is None else short(flow.records_per_s)),
        Fact("bytes/s", UNKNOWN if flow.bytes_per_s is None else size(flow.bytes_per_s)),
        Fact("problems", count(flow.problems), Tone.BAD if flow.problems else Tone.PLAIN),
    ]
    if not flow.is_link:
        facts += [
            Fact("loops", count(flow.loops), Tone.WARN if flow.loops else Tone.PLAIN),
            Fact("restarts", count(flow.restarts), Tone.WARN if flow.restarts else Tone.PLAIN),
            Fact("groups", UNKNOWN if flow.groups is None else count(flow.groups)),
            Fact("checkpoint", _ago(flow.checkpoint_age_ms)),
            _heartbeat(flow),
        ]
    return [fact._replace(value=clean(fact.value)) for fact in facts]


def _heartbeat(flow: MirrorFlow) -> Fact:
    return Fact("heartbeat", _ago(flow.heartbeat_age_ms))


def _ago(age_ms: int | None) -> str:
    return UNKNOWN if age_ms is None else f"{duration(age_ms)} ago"
