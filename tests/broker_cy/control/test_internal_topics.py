"""The settings of the topics that brokers create themselves."""

from __future__ import annotations

import pytest

from broker_cy.config import BrokerConfig
from broker_cy.control.topics.internal_topics import creatable_topic
from broker_cy.metadata import topic_names


@pytest.mark.parametrize("name", sorted(topic_names.OWN_TOPICS))
def test_topics_of_one_replica_are_never_below_the_minimum_in_sync(name: str) -> None:
    """If this fails, a cluster whose brokers have min.insync.replicas=2 shows two unhealthy partitions at all times."""
    topic = creatable_topic(name, BrokerConfig.from_properties({"min.insync.replicas": "2"}))
    settings = {each.name: each.value for each in topic.configs}
    assert int(settings["min.insync.replicas"] or 0) <= topic.replication_factor
