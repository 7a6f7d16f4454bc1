"""Applying records to an image, which is the only way to change metadata (Kafka's MetadataDelta and the controller's
replay).
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Any, Final

from broker_cy.metadata import authors, quotas
from broker_cy.metadata import image as images
from broker_cy.metadata.fence_reasons import read_tag
from broker_cy.metadata.image import BrokerImage, Endpoint, MetadataImage, PartitionImage
from broker_cy.metadata.records import MetadataLogError
from broker_cy.metadata.topics import TopicImage

NO_LEADER_CHANGE: Final = -2

_tuples: dict[tuple[Any, ...], tuple[Any, ...]] = {}
_TUPLES_MAX = 4096


def _shared(values: list[Any] | None) -> tuple[Any, ...]:
    """A tuple of `values`, the same object for equal values, because most partitions of a cluster have one of a few
    replica lists.
    """
    if not values:
        return ()
    key = tuple(values)
    found = _tuples.get(key)
    if found is None:
        if len(_tuples) >= _TUPLES_MAX:
            _tuples.clear()
        found = _tuples[key] = key
    return found


def replay(image: MetadataImage, message: Any) -> None:
    """Apply one record. Raises MetadataLogError if it does not fit the state, which means an incomplete log."""
    apply = _APPLY.get(type(message).__name__)
    if apply is None:
        raise MetadataLogError(f"{type(message).__name__} is not supported")
    apply(image, message)


def _nothing(image: MetadataImage, record: Any) -> None:
    pass


def _register_broker(image: MetadataImage, record: Any) -> None:
    cordoned = record.cordoned_log_dirs
    image.brokers[record.broker_id] = BrokerImage(
        record.broker_id,
        record.broker_epoch,
        record.incarnation_id,
        {e.name: Endpoint(e.host, e.port, e.security_protocol) for e in record.end_points},
        {f.name: (f.min_supported_version, f.max_supported_version) for f in record.features},
        record.rack,
        record.fenced,
        record.in_controlled_shutdown,
        tuple(record.log_dirs),
        None if cordoned is None else tuple(cordoned),
        record.is_migrating_zk_broker,
        read_tag(record._unknown_tags),
    )


def _broker(image: MetadataImage, broker_id: int, epoch: int, record: Any) -> BrokerImage:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        raise MetadataLogError(f"{type(record).__name__} for broker {broker_id} epoch {epoch}, which is not registered")
    return broker


def _unregister_broker(image: MetadataImage, record: Any) -> None:
    _broker(image, record.broker_id, record.broker_epoch, record)
    del image.brokers[record.broker_id]


def _fence_broker(image: MetadataImage, record: Any) -> None:
    image.brokers[record.id] = _broker(image, record.id, record.epoch, record)._replace(fenced=True)


def _unfence_broker(image: MetadataImage, record: Any) -> None:
    image.brokers[record.id] = _broker(image, record.id, record.epoch, record)._replace(fenced=False)


def _change_broker(image: MetadataImage, record: Any) -> None:
    broker = _broker(image, record.broker_id, record.broker_epoch, record)
    changes: dict[str, Any] = {}
    if record.fenced:  # 1 fences, -1 unfences, 0 changes nothing
        changes["fenced"] = record.fenced > 0
        changes["fence_reason"] = read_tag(record._unknown_tags)
    if record.in_controlled_shutdown:
        changes["in_controlled_shutdown"] = True
    if record.log_dirs:
        changes["log_dirs"] = tuple(record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changes["cordoned_log_dirs"] = tuple(record.cordoned_log_dirs)
    image.brokers[record.broker_id] = broker._replace(**changes)


def _register_controller(image: MetadataImage, record: Any) -> None:
    image.controllers[record.controller_id] = record


def _topic(image: MetadataImage, record: Any) -> None:
    if image.topics.by_name(record.name) is not None:
        raise MetadataLogError(f"TopicRecord for {record.name}, which exists already")
    image.topics.put(TopicImage(record.name, record.topic_id, {}))


def _partitions(image: MetadataImage, record: Any) -> dict[int, PartitionImage]:
    try:
        return image.topics.partitions_for_write(record.topic_id)
    except KeyError:
        raise MetadataLogError(
            f"{type(record).__name__} for topic id {record.topic_id}, which does not exist"
        ) from None


def _partition(image: MetadataImage, record: Any) -> None:
    replicas = _shared(record.replicas)
    # Before metadata.version 17, records have no directory ids: the directory of a replica is unknown.
    _partitions(image, record)[record.partition_id] = PartitionImage(
        replicas,
        _shared(record.isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        _shared(record.directories),
        _shared(record.removing_replicas),
        _shared(record.adding_replicas),
        _shared(record.eligible_leader_replicas),
        _shared(record.last_known_elr),
        record.leader_recovery_state,
    )


def _change_partition(image: MetadataImage, record: Any) -> None:
    partitions = _partitions(image, record)
    old = partitions.get(record.partition_id)
    if old is None:
        raise MetadataLogError(
            f"PartitionChangeRecord for {record.topic_id}:{record.partition_id}, which does not exist"
        )
    partitions[record.partition_id] = changed_partition(old, record)


def changed_partition(old: PartitionImage, record: Any) -> PartitionImage:
    """The partition after a PartitionChangeRecord."""
    leader, leader_epoch = old.leader, old.leader_epoch
    if record.leader != NO_LEADER_CHANGE:
        # Also if the record names the current leader: that is how a new leader epoch starts.
        leader, leader_epoch = record.leader, old.leader_epoch + 1
    return PartitionImage(
        old.replicas if record.replicas is None else _shared(record.replicas),
        old.isr if record.isr is None else _shared(record.isr),
        leader,
        leader_epoch,
        old.partition_epoch + 1,
        old.directories if record.directories is None else _shared(record.directories),
        old.removing_replicas if record.removing_replicas is None else _shared(record.removing_replicas),
        old.adding_replicas if record.adding_replicas is None else _shared(record.adding_replicas),
        old.elr if record.eligible_leader_replicas is None else _shared(record.eligible_leader_replicas),
        old.last_known_elr if record.last_known_elr is None else _shared(record.last_known_elr),
        old.leader_recovery_state if record.leader_recovery_state == -1 else record.leader_recovery_state,
    )


def _remove_topic(image: MetadataImage, record: Any) -> None:
    try:
        topic = image.topics.remove(record.topic_id)
    except KeyError:
        raise MetadataLogError(f"RemoveTopicRecord for topic id {record.topic_id}, which does not exist") from None
    image.configs.clear(images.RESOURCE_TOPIC, topic.name)


def _clear_elr(image: MetadataImage, record: Any) -> None:
    """Clear the eligible leader replicas of one topic; an empty name means all topics."""
    if record.topic_name:
        named = image.topics.by_name(record.topic_name)
        if named is None:
            raise MetadataLogError(f"ClearElrRecord for {record.topic_name}, which does not exist")
        chosen = [named]
    else:
        chosen = list(image.topics)
    for topic in chosen:
        for index, partition in topic.partitions.items():
            if partition.elr or partition.last_known_elr:
                own = image.topics.partitions_for_write(topic.topic_id)
                epoch = partition.partition_epoch + 1
                own[index] = partition._replace(elr=(), last_known_elr=(), partition_epoch=epoch)


def _config(image: MetadataImage, record: Any) -> None:
    image.configs.set(record.resource_type, record.resource_name, record.name, record.value)


def _feature(image: MetadataImage, record: Any) -> None:
    image.features.set(record.name, record.feature_level)


def _producer_ids(image: MetadataImage, record: Any) -> None:
    image.scalars[images.NEXT_PRODUCER_ID] = record.next_producer_id
    image.scalars[images.PRODUCER_IDS_BROKER] = record.broker_id
    image.scalars[images.PRODUCER_IDS_BROKER_EPOCH] = record.broker_epoch


def _zk_migration(image: MetadataImage, record: Any) -> None:
    image.scalars[images.ZK_MIGRATION_STATE] = record.zk_migration_state


def _keep_acl(image: MetadataImage, record: Any) -> None:
    # Most of the texts of 100,000 ACLs are equal.
    record.resource_name, record.principal = intern(record.resource_name), intern(record.principal)
    _keep(image, (images.ACL, record.id), record)


def _drop_acl(image: MetadataImage, record: Any) -> None:
    _drop(image, (images.ACL, record.id), record)


def _keep_scram(image: MetadataImage, record: Any) -> None:
    _keep(image, (images.SCRAM, record.name, record.mechanism), record)


def _drop_scram(image: MetadataImage, record: Any) -> None:
    _drop(image, (images.SCRAM, record.name, record.mechanism), record)


def _keep(image: MetadataImage, key: tuple[Any, ...], record: Any) -> None:
    image.kept[key] = _without_author(image, key, record)


def _without_author(image: MetadataImage, key: tuple[Any, ...], record: Any) -> Any:
    """The record to keep: its author is noted apart, and the record itself may still have to be written."""
    tags = record._unknown_tags
    author = authors.data_of(tags)
    _note_author(image, key, author)
    if not author:
        return record
    twin = type(record)()
    for name in type(record).__slots__:
        setattr(twin, name, getattr(record, name))
    twin._unknown_tags = tuple(each for each in tags if each[0] != authors.TAG)
    return twin


def _drop(image: MetadataImage, key: tuple[Any, ...], record: Any) -> None:
    _note_author(image, key, authors.data_of(record._unknown_tags))
    image.kept.pop(key, None)


def _note_author(image: MetadataImage, key: tuple[Any, ...], author: bytes) -> None:
    """Note it, also that there is none: an earlier change of the same entity may have one."""
    if key in image.authors or len(image.authors) < images.AUTHORS_MAX:
        image.authors[key] = author


def _keep_token(image: MetadataImage, record: Any) -> None:
    image.tokens[record.token_id] = _without_author(image, (images.TOKEN, record.token_id), record)


def _drop_token(image: MetadataImage, record: Any) -> None:
    _note_author(image, (images.TOKEN, record.token_id), authors.data_of(record._unknown_tags))
    image.tokens.pop(record.token_id, None)


def _quota(image: MetadataImage, record: Any) -> None:
    key = (quotas.QUOTA, quotas.entity_of_parts(record.entity), record.key)
    if record.remove:
        _drop(image, key, record)
    else:
        _keep(image, key, record)


_APPLY: Final[dict[str, Callable[[MetadataImage, Any], None]]] = {
    "RegisterBrokerRecord": _register_broker,
    "UnregisterBrokerRecord": _unregister_broker,
    "FenceBrokerRecord": _fence_broker,
    "UnfenceBrokerRecord": _unfence_broker,
    "BrokerRegistrationChangeRecord": _change_broker,
    "RegisterControllerRecord": _register_controller,
    "TopicRecord": _topic,
    "PartitionRecord": _partition,
    "PartitionChangeRecord": _change_partition,
    "RemoveTopicRecord": _remove_topic,
    "ClearElrRecord": _clear_elr,
    "ConfigRecord": _config,
    "FeatureLevelRecord": _feature,
    "ProducerIdsRecord": _producer_ids,
    "ZkMigrationStateRecord": _zk_migration,
    "AccessControlEntryRecord": _keep_acl,
    "RemoveAccessControlEntryRecord": _drop_acl,
    "UserScramCredentialRecord": _keep_scram,
    "RemoveUserScramCredentialRecord": _drop_scram,
    "DelegationTokenRecord": _keep_token,
    "RemoveDelegationTokenRecord": _drop_token,
    "ClientQuotaRecord": _quota,
    "NoOpRecord": _nothing,
}
