"""The brokers on which scripts run, the same for Apache Kafka and for this one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.wire import messages
from tests.compat.differential.client import Client
from tests.compat.differential.script import SCRIPTS, Entry, Peer
from tests.support.wait import until

_COMMON = {
    "node.id": "1",
    "broker.rack": "r1",
    # Batches of scripts have timestamps of years ago.
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.size": "3",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "auto.create.topics.enable": "false",
}
_NEWER_GROUPS = {
    **_COMMON,
    # Members get their partitions without waiting for others.
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "main": _COMMON,
    # Requests that are allowed or denied only by a setting.
    "auto": {
        **_COMMON,
        "auto.create.topics.enable": "true",
        "num.partitions": "2",
        "delete.topic.enable": "false",
        "max.request.partition.size.limit": "3",
        "offset.metadata.max.bytes": "10",
    },
    "transactions": {
        **_COMMON,
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        # Timeouts are checked often.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    },
    # Its scripts change the levels of features.
    "features": _COMMON,
    "newer groups": _NEWER_GROUPS,
    **{
        f"policy {policy}": {
            **_NEWER_GROUPS,
            "group.consumer.migration.policy": policy,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
        for policy in ("disabled", "upgrade", "downgrade", "bidirectional")
    },
    # Its script restarts it: leader epochs increase.
    "restarted": _COMMON,
}


def scripts_of(broker: str) -> Iterable[Entry]:
    return [entry for entry in SCRIPTS.values() if entry.broker == broker]


def make_ready(peer: Peer) -> None:
    """Wait until the broker coordinates groups (Kafka creates the topic for that at the first request) and has producer
    ids.
    """
    client = Client((peer.host, peer.port))

    def found() -> bool:
        answer = client.ask(messages.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        assert not isinstance(answer, str), answer
        return bool(answer.coordinators[0].error_code == 0)

    def led() -> bool:
        asked = messages.MetadataRequest.MetadataRequestTopic(name="__consumer_offsets")
        answer = client.ask(messages.MetadataRequest(topics=[asked]), 12)
        assert not isinstance(answer, str), answer
        (topic,) = answer.topics
        return topic.error_code == 0 and all(partition.leader_id >= 0 for partition in topic.partitions)

    def loaded() -> bool:
        groups = [messages.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=f"g{i}", topics=None) for i in range(40)]
        answer = client.ask(messages.OffsetFetchRequest(groups=groups), 8)
        assert not isinstance(answer, str), answer
        return all(group.error_code == 0 for group in answer.groups)

    def gives_ids() -> bool:
        answer = client.ask(messages.InitProducerIdRequest(transactional_id=None), 4)
        assert not isinstance(answer, str), answer
        return bool(answer.error_code == 0)

    try:
        until(gives_ids, "a producer id")
        until(found, "a coordinator")
        until(led, "leaders of __consumer_offsets")
        until(loaded, "all coordinators to be loaded")
    finally:
        client.close()
