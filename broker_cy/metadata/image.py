"""The state of the cluster, from the metadata log: topics, partitions, configurations, brokers, features, producer ids.

The class has two uses. The committed image, whose tables are plain dicts, is read by the broker and its handlers; it
changes only by `absorb`, between two turns of the event loop, in time proportional to the change. A `branch`, whose
tables are overlays, is the state against which the controller validates the next operation before the previous one is
committed; dropping the branch undoes its changes. Entries (PartitionImage, BrokerImage, ...) are immutable: a change
replaces them. The delta of a commit is here too, because each table has its counterpart in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from broker_cy.core.classes import NamedTuple
from broker_cy.metadata import features
from broker_cy.metadata.fence_reasons import FenceReason
from broker_cy.metadata.overlay import ABSENT, Overlay, changes_of, forget, merge
from broker_cy.metadata.partition import NO_LEADER as NO_LEADER
from broker_cy.metadata.partition import PartitionImage as PartitionImage
from broker_cy.metadata.quotas import QUOTA
from broker_cy.metadata.topics import TopicImage, TopicsImage

# Kafka's ConfigResource.Type, as stored in ConfigRecord.
RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_BROKER_LOGGER = 8
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32

_NO_CONFIGS: dict[str, str] = {}


class Endpoint(NamedTuple):
    """The address of a listener; `security_protocol` is Kafka's id (0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3
    SASL_SSL).
    """

    host: str
    port: int
    security_protocol: int


class BrokerImage(NamedTuple):
    """One registered broker. A fenced broker leads no partition and is not returned to clients."""

    broker_id: int
    epoch: int
    incarnation_id: UUID
    listeners: dict[str, Endpoint]
    features: dict[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[UUID, ...]
    cordoned_log_dirs: tuple[UUID, ...] | None
    is_migrating_zk_broker: bool = False
    # The reason of the newest fencing of this incarnation.
    fence_reason: FenceReason = FenceReason.UNKNOWN

    @property
    def is_active(self) -> bool:
        """True if it may lead partitions."""
        return not self.fenced and not self.in_controlled_shutdown


class ConfigsImage:
    """The configurations that are set, by resource. The returned dicts must not be changed."""

    __slots__ = ("_resources",)

    def __init__(self, resources: MutableMapping[tuple[int, str], dict[str, str]]) -> None:
        self._resources = resources

    def topic(self, name: str) -> dict[str, str]:
        return self._resources.get((RESOURCE_TOPIC, name)) or _NO_CONFIGS

    def broker(self, broker_id: int | str) -> dict[str, str]:
        """The settings of one broker, or, for "", the defaults of all brokers."""
        return self._resources.get((RESOURCE_BROKER, str(broker_id))) or _NO_CONFIGS

    def resource(self, resource_type: int, name: str) -> dict[str, str]:
        return self._resources.get((resource_type, name)) or _NO_CONFIGS

    def resources(self) -> list[tuple[int, str]]:
        """(type, name) of every resource with at least one setting."""
        return list(self._resources)

    def set(self, resource_type: int, name: str, key: str, value: str | None) -> None:
        settings = dict(self.resource(resource_type, name))
        if value is None:
            settings.pop(key, None)
        else:
            settings[key] = value
        if settings:
            self._resources[(resource_type, name)] = settings
        else:
            self._resources.pop((resource_type, name), None)

    def clear(self, resource_type: int, name: str) -> None:
        self._resources.pop((resource_type, name), None)


# The levels of a feature that this broker does not know.
_UNKNOWN = (0, 0)


class FeaturesImage:
    """Finalized feature levels. `epoch` is the offset at which they are valid; it grows with the log."""

    __slots__ = ("_levels", "epoch")

    def __init__(self, levels: MutableMapping[str, int]) -> None:
        self._levels = levels
        self.epoch = -1

    def level(self, name: str) -> int:
        """The level in the log, 0 if none is finalized."""
        return self._levels.get(name, 0) or 0

    def levels(self) -> dict[str, int]:
        """All levels in the log, as a new dict without the features at level 0."""
        return dict(self._levels)

    @property
    def finalized(self) -> dict[str, int]:
        """The levels reported to clients: no higher than those that this broker supports, even if a log of Apache Kafka
        has finalized a higher one.
        """
        served = {name: min(level, features.SUPPORTED.get(name, (0, 0))[1]) for name, level in self._levels.items()}
        return {name: level for name, level in served.items() if level > 0}

    def served(self, name: str) -> int:
        """The level of one feature in `finalized`; 0 if it has none."""
        # Each heartbeat of a consumer group asks.
        level, supported = self._levels.get(name) or 0, features.SUPPORTED.get(name, _UNKNOWN)[1]
        return level if level < supported else supported

    @property
    def metadata_version(self) -> int:
        """Level of metadata.version; 0 before the first record."""
        return self.level(features.METADATA_VERSION)

    def set(self, name: str, level: int) -> None:
        if level:
            self._levels[name] = level
        else:
            self._levels.pop(name, None)


# Names of `MetadataImage.scalars`.
NEXT_PRODUCER_ID = "next_producer_id"
PRODUCER_IDS_BROKER = "producer_ids_broker"
PRODUCER_IDS_BROKER_EPOCH = "producer_ids_broker_epoch"
ZK_MIGRATION_STATE = "zk_migration_state"
# The first elements of the keys of ACLs and SCRAM credentials in `MetadataImage.kept`: (ACL, id) and (SCRAM, user, type
# of the mechanism).
ACL: Final = "acl"
SCRAM: Final = "scram"
# The first element of the keys of delegation tokens in `MetadataImage.authors`: (TOKEN, id).
TOKEN: Final = "token"
# Changes whose author an image knows; a step of the controller has at most half as many. The others have none.
AUTHORS_MAX: Final = 20_000
_NO_AUTHORS: Final[Mapping[tuple[Any, ...], bytes]] = MappingProxyType({})


class MetadataImage:
    """All metadata. `offset` and `epoch` are those of the last record applied (-1 before the first).

    `generation` grows with every change; caches of encoded answers compare it. `kept` has the newest record of each
    entity that needs no form of its own (ACLs, which `security.authorizer` indexes; SCRAM credentials, of
    `controller.scram_ops`; quotas), by a key that identifies the entity. `tokens` are the DelegationTokenRecords by
    their ids. Snapshots contain these records, so no record of a log written by Apache Kafka is lost. `authors` has the
    requesters of the changes since the image below, by keys of `kept` and (TOKEN, id) (metadata.authors).
    """

    __slots__ = (
        "authors",
        "brokers",
        "configs",
        "controllers",
        "derived",
        "epoch",
        "features",
        "generation",
        "kept",
        "offset",
        "scalars",
        "tokens",
        "topics",
    )

    def __init__(self) -> None:
        self.topics = TopicsImage({}, {}, {}, None)
        self.configs = ConfigsImage({})
        self.brokers: MutableMapping[int, BrokerImage] = {}
        self.controllers: MutableMapping[int, Any] = {}
        self.features = FeaturesImage({})
        self.scalars: MutableMapping[str, int] = {}
        self.kept: MutableMapping[tuple[Any, ...], Any] = {}
        self.tokens: MutableMapping[str, Any] = {}
        self.authors: dict[tuple[Any, ...], bytes] = {}
        self.offset = -1
        self.epoch = -1
        self.generation = 0
        # Results that readers computed from this image, by keys of their choice; cleared at every change. Each reader
        # bounds the number of its entries.
        self.derived: dict[Any, Any] = {}

    @property
    def next_producer_id(self) -> int:
        """The first producer id that was not allocated to any broker."""
        return self.scalars.get(NEXT_PRODUCER_ID, 0) or 0

    def acls(self) -> Iterator[Any]:
        """The AccessControlEntryRecords. O(entries of `kept`)."""
        return (record for key, record in self.kept.items() if key[0] == ACL)

    def quotas(self) -> Iterator[Any]:
        """The ClientQuotaRecords. O(entries of `kept`)."""
        return (record for key, record in self.kept.items() if key[0] == QUOTA)

    def branch(self) -> MetadataImage:
        """An image above this one: reads of unchanged entries go through to this one, writes stay in the branch."""
        above = MetadataImage.__new__(MetadataImage)
        above.topics = self.topics.branch()
        above.configs = ConfigsImage(Overlay(self.configs._resources))
        above.brokers = Overlay(self.brokers)
        above.controllers = Overlay(self.controllers)
        above.features = FeaturesImage(Overlay(self.features._levels))
        above.scalars = Overlay(self.scalars)
        above.kept = Overlay(self.kept)
        above.tokens = Overlay(self.tokens)
        above.authors = {}
        above.offset = self.offset
        above.epoch = self.epoch
        above.generation = self.generation + 1
        above.derived = {}
        return above

    def _tables(self) -> tuple[MutableMapping[Any, Any], ...]:
        return (
            *self.topics.tables(),
            self.configs._resources,
            self.brokers,
            self.controllers,
            self.features._levels,
            self.scalars,
            self.kept,
            self.tokens,
        )

    def absorb(self, above: MetadataImage) -> ImageDelta:
        """Take over the changes of `above`, a branch of this image, and return them. O(changes)."""
        delta = ImageDelta.of_branch(self, above)
        self.merge(above)
        self.authors = {}
        return delta

    def merge(self, above: MetadataImage) -> None:
        """`absorb` without the list of changes; this image may itself be a branch."""
        self.topics.absorb_index(above.topics)
        for mine, theirs in zip(self._tables(), above._tables(), strict=True):
            merge(mine, theirs)
        self.authors.update(above.authors)
        self.offset = above.offset
        self.epoch = above.epoch
        self.generation += 1
        self.derived.clear()
        self.features.epoch = self.offset

    def forget(self, merged: MetadataImage) -> None:
        """Drop those changes of `merged` from this branch that nothing has replaced since `merge` added them; the image
        below absorbs them. O(changes of `merged`).
        """
        for mine, theirs in zip(self._tables(), merged._tables(), strict=True):
            forget(mine, theirs)
        for key, author in merged.authors.items():
            if self.authors.get(key) == author:
                del self.authors[key]

    def copy(self) -> MetadataImage:
        """A copy that later calls of `absorb` do not affect, for snapshots. O(topics): partition dicts are shared."""
        twin = MetadataImage()
        for mine, theirs in zip(twin._tables(), self._tables(), strict=True):
            mine.update(theirs)
        twin.offset, twin.epoch, twin.generation = self.offset, self.epoch, self.generation
        return twin


class TopicDelta(NamedTuple):
    """A topic before and after a commit; `before` is None for a new topic, `after` for a deleted one."""

    before: TopicImage | None
    after: TopicImage | None


class ImageDelta(NamedTuple):
    """The changes of one commit. `configs` names resources as (type, name). `acls` has AccessControlEntryRecords,
    `scram` UserScramCredentialRecords, `quotas` ClientQuotaRecords and `tokens` DelegationTokenRecords as (before,
    after), None for a missing one; `authors` has the known requesters of these changes, by keys as in
    `MetadataImage.authors`.
    """

    topics: list[TopicDelta]
    configs: list[tuple[int, str]]
    brokers: list[int]
    features: list[str]
    acls: Sequence[tuple[Any, Any]] = ()
    scram: Sequence[tuple[Any, Any]] = ()
    quotas: Sequence[tuple[Any, Any]] = ()
    tokens: Sequence[tuple[Any, Any]] = ()
    authors: Mapping[tuple[Any, ...], bytes] = _NO_AUTHORS

    def gone(self) -> list[TopicImage]:
        """The topics that were deleted, also those that were created again."""
        return [
            topic.before
            for topic in self.topics
            if topic.before is not None and (topic.after is None or topic.after.topic_id != topic.before.topic_id)
        ]

    @classmethod
    def of_branch(cls, base: MetadataImage, above: MetadataImage) -> ImageDelta:
        topics = [
            TopicDelta(base.topics.by_id(topic_id), None if after is ABSENT else after)
            for topic_id, after in above.topics.changes()
        ]
        return cls(
            [t for t in topics if t.before is not None or t.after is not None],
            [key for key, _ in changes_of(above.configs._resources)],
            [key for key, _ in changes_of(above.brokers)],
            [key for key, _ in changes_of(above.features._levels)],
            acls=_kept_changes(base, above, ACL),
            scram=_kept_changes(base, above, SCRAM),
            quotas=_kept_changes(base, above, QUOTA),
            tokens=[
                (base.tokens.get(key), None if after is ABSENT else after) for key, after in changes_of(above.tokens)
            ],
            authors=above.authors,
        )

    @classmethod
    def between(cls, before: MetadataImage, after: MetadataImage) -> ImageDelta:
        """The differences of two images without a common table, as when a snapshot has replaced one by the other."""
        ids = {topic.topic_id for topic in before.topics} | {topic.topic_id for topic in after.topics}
        topics = [TopicDelta(before.topics.by_id(each), after.topics.by_id(each)) for each in ids]
        resources = {*before.configs.resources(), *after.configs.resources()}
        brokers = {*before.brokers, *after.brokers}
        levels = {*before.features.levels(), *after.features.levels()}
        return cls(
            [topic for topic in topics if topic.before != topic.after],
            [key for key in resources if before.configs.resource(*key) != after.configs.resource(*key)],
            [each for each in brokers if before.brokers.get(each) != after.brokers.get(each)],
            [name for name in levels if before.features.level(name) != after.features.level(name)],
            acls=_kept_differences(before, after, ACL),
            scram=_kept_differences(before, after, SCRAM),
            quotas=_kept_differences(before, after, QUOTA),
            tokens=[
                (before.tokens.get(each), after.tokens.get(each))
                for each in dict.fromkeys((*before.tokens, *after.tokens))
                if before.tokens.get(each) != after.tokens.get(each)
            ],
        )

    @classmethod
    def initial(cls, image: MetadataImage) -> ImageDelta:
        """Everything in `image` as a new entry: the first delta of a subscriber."""
        return cls(
            [TopicDelta(None, topic) for topic in image.topics],
            image.configs.resources(),
            list(image.brokers),
            list(image.features.levels()),
            acls=[(None, record) for record in image.acls()],
            quotas=[(None, record) for record in image.quotas()],
            tokens=[(None, record) for record in image.tokens.values()],
        )


def _kept_changes(base: MetadataImage, above: MetadataImage, kind: str) -> list[tuple[Any, Any]]:
    """The records of `kept` of one kind that a branch changes, as (before, after)."""
    return [
        (base.kept.get(key), None if after is ABSENT else after)
        for key, after in changes_of(above.kept)
        if key[0] == kind
    ]


def _kept_differences(before: MetadataImage, after: MetadataImage, kind: str) -> list[tuple[Any, Any]]:
    """The same for two images without a common table."""
    return [
        (before.kept.get(key), after.kept.get(key))
        for key in dict.fromkeys((*before.kept, *after.kept))
        if key[0] == kind and before.kept.get(key) != after.kept.get(key)
    ]
