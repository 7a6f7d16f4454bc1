"""Topics for tests, created and queried with confluent-kafka's admin client."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.wait import until

TIMEOUT_S = 60.0


def create_topic(bootstrap: str, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    """Create the topic and wait until the metadata shows a leader for each partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))], request_timeout=TIMEOUT_S)[
        name
    ].result(TIMEOUT_S)

    def led() -> bool:
        topic = admin.list_topics(name, timeout=TIMEOUT_S).topics[name]
        return len(topic.partitions) == partitions and all(
            partition.leader >= 0 for partition in topic.partitions.values()
        )

    until(led, f"leaders of {name}", TIMEOUT_S)
