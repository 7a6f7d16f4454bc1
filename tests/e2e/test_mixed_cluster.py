"""One node of broker-cy and two of Apache Kafka 4.3.1 form a cluster: voters of one quorum, and replicas of the same
partitions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.features import ELIGIBLE_LEADER_REPLICAS
from broker_cy.wire import messages
from tests.support import needs
from tests.support.cluster import ask, create_topic, topics
from tests.support.mixed_cluster import TURNS_MAX, MixedNode, active_controller, depose, mixed_cluster
from tests.support.wait import until

pytestmark = [pytest.mark.full, needs.kafka]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL"])
def test_controllers_of_both_lead_one_after_the_other(protocol: str, tmp_path: Path) -> None:
    """If this fails, a running Kafka cluster cannot be migrated node by node: our node does not follow Kafka's
    controllers, Kafka's nodes do not follow ours, or they show different topics; or one kind refuses the logins or
    certificates of the other, or operations that nodes need.
    """
    if protocol == "SASL_SSL":
        needs.require(needs.tls)
    with mixed_cluster(tmp_path, ("kafka", "kafka", "ours"), protocol=protocol) as nodes:
        for node in nodes:
            request = messages.ApiVersionsRequest(client_software_name="test", client_software_version="1")
            found = ask(node.port, request, messages.ApiVersionsResponse).finalized_features
            assert [each.max_version_level for each in found if each.name == ELIGIBLE_LEADER_REPLICAS] == [1]
        for number, node in enumerate(nodes, 1):
            assert create_topic(node.port, f"by-{number}", 2, 3) is ErrorCode.NONE
        names = {"by-1", "by-2", "by-3"}
        led_by = {active_controller(nodes[2])}
        for turn in range(TURNS_MAX):
            if led_by & {3} and led_by - {3}:
                break

            def between(left: MixedNode, found: int, name: str = f"turn-{turn}") -> None:
                led_by.add(found)
                assert create_topic(left.port, name, 1, 1) is ErrorCode.NONE
                names.add(name)

            depose(nodes, active_controller(nodes[2]), between)
        for node in nodes:
            until(lambda node=node: names <= set(topics(node.port)), "all topics", 60)  # type: ignore[misc]

        def in_sync() -> bool:
            parts = [part for name in ("by-1", "by-2", "by-3") for part in topics(nodes[0].port)[name].partitions]
            return all(len(part.isr_nodes) == 3 for part in parts)

        until(in_sync, "three replicas in sync, of both kinds", 90, tolerate=(ClientError,))
        assert led_by & {3}
        assert led_by - {3}
