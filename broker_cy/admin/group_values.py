"""Groups of every type as the admin core returns them."""

from __future__ import annotations

from collections import Counter

from broker_cy.admin.metadata import TopicPartition
from broker_cy.core.classes import NamedTuple, dataclass

# Kafka's names of the group types. Classic and consumer are also the protocols of a consumer group's members.
CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
STREAMS = "streams"
# States of groups without members.
WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as ListGroups reports it. State and type are empty from old brokers (before versions 4 and 5)."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class Task(NamedTuple):
    """A task of a streams group: a partition of the inputs of a subtopology."""

    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of a member, by kind."""

    active: tuple[Task, ...] = ()
    standby: tuple[Task, ...] = ()
    warmup: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsFacts:
    """The part of a member that only streams groups have. `endpoint` is host:port for interactive queries, None without
    one.
    """

    process_id: str
    topology_epoch: int
    endpoint: str | None
    client_tags: dict[str, str]
    tasks: Tasks
    target: Tasks


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member. `assignment` is its current assignment, `target` the intended one (consumer groups only, else None).

    `subscribed` are topic names. Classic groups have no member epoch (-1). `protocol` is classic, consumer, share or
    streams; empty if the broker does not report it. The partitions of a streams member are in `streams`, as tasks.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rack: str | None
    member_epoch: int
    subscribed: tuple[str, ...]
    subscribed_regex: str | None
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None
    protocol: str = ""
    streams: StreamsFacts | None = None


class InternalTopic(NamedTuple):
    """A repartition or changelog topic of a subtopology. `partitions` is 0 if the topology leaves the number open."""

    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, which standby tasks copy."""
        return bool(self.changelogs)


@dataclass(frozen=True, slots=True)
class Topology:
    epoch: int
    subtopologies: tuple[Subtopology, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. `assignor` is the protocol or assignor in use; epochs are -1 for classic groups. Only a streams group
    has a topology.
    """

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator_id: int
    group_epoch: int
    assignment_epoch: int
    members: tuple[GroupMember, ...]
    topology: Topology | None = None

    def protocols(self) -> dict[str, int]:
        """The number of members of each protocol: a consumer group with classic members is being converted."""
        return dict(sorted(Counter(member.protocol for member in self.members if member.protocol).items()))
