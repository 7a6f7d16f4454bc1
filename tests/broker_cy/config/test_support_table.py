"""The account of what is effective is honest: a setting said to have an effect is read by some code."""

from __future__ import annotations

from pathlib import Path

from broker_cy.config.definitions import BROKER, TOPIC, TOPIC_SYNONYMS, Support

ROOT = Path(__file__).parents[3] / "broker_cy"

# Read inside of config/, which gives them out as typed attributes of BrokerConfig.
BY_ATTRIBUTE = {
    "advertised.listeners",
    "broker.id",
    "controller.listener.names",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "max.connections.per.ip.overrides",
    "node.id",
    "process.roles",
    "security.inter.broker.protocol",
}

# Their readers are being written; each leaves this list with its reader, and the list goes when it is empty.
PENDING = {
    "auto.create.topics.enable",
    "broker.rack",
    "connections.max.idle.ms",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "log.flush.offset.checkpoint.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "max.connections",
    "max.connections.per.ip",
    "max.incremental.fetch.session.cache.slots",
    "max.request.partition.size.limit",
    "metadata.log.dir",
    "metadata.log.max.record.bytes.between.snapshots",
    "metadata.log.max.snapshot.interval.ms",
    "metadata.log.segment.bytes",
    "metadata.log.segment.ms",
    "metadata.max.retention.bytes",
    "metadata.max.retention.ms",
    "num.partitions",
    "offset.metadata.max.bytes",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
    "offsets.topic.compression.codec",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "offsets.topic.segment.bytes",
    "producer.id.expiration.ms",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.request.max.bytes",
    "socket.send.buffer.bytes",
}


def source() -> str:
    files = [*ROOT.rglob("*.py"), *ROOT.rglob("*.pyx")]
    return "\n".join(file.read_text() for file in files if file.parent.name != "config")


def unread() -> set[str]:
    text = source()
    topic = {name for name in TOPIC if f'"{name}"' in text}
    by_topic = {synonym.name for name in topic for synonym in TOPIC_SYNONYMS[name]}
    effective = {name for name, setting in BROKER.items() if setting.support is Support.EFFECTIVE}
    return {name for name in effective - BY_ATTRIBUTE - by_topic if f'"{name}"' not in text}


def test_effective_settings_are_read() -> None:
    """A setting called effective that nothing reads is accepted and ignored, and nobody is told."""
    assert unread() <= PENDING


def test_topic_settings_agree_with_the_broker() -> None:
    """A default of the broker for a topic setting has an effect exactly where the topic's setting has."""
    for name, synonyms in TOPIC_SYNONYMS.items():
        for synonym in synonyms:
            assert BROKER[synonym.name].support is TOPIC[name].support, (name, synonym.name)
