"""The events of security of a cluster with a controller of its own: the author of a change is known on every node, and
what the controller refuses is written, too, although it has no topics.

All are anonymous, so that rights are given by host.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Operation, PatternType, Permission, ResourceType
from broker_cy.wire import messages
from tests.broker_cy.commands.conftest import TIMEOUT_S, Cli, bare  # noqa: F401 (a fixture)
from tests.compat.differential.client import Client
from tests.support.cluster import ClusterNode, cluster, topics
from tests.support.wait import until

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
NODES, STRANGER = "127.0.0.1", "127.0.0.2"


def acl(permission: Permission, host: str) -> Any:
    """A right to everything on the cluster."""
    return messages.CreateAclsRequest.AclCreation(
        resource_type=ResourceType.CLUSTER,
        resource_name="kafka-cluster",
        resource_pattern_type=PatternType.LITERAL,
        principal="User:ANONYMOUS",
        host=host,
        operation=Operation.ALL,
        permission_type=permission,
    )


def create(node: ClusterNode, host: str, *acls: Any) -> set[int]:
    client = Client((node.host, node.port), host)
    try:
        return {each.error_code for each in client.ask(messages.CreateAclsRequest(creations=list(acls)), 3).results}
    finally:
        client.close()


def test_the_author_is_known_everywhere(bare: Cli, tmp_path: Path) -> None:  # noqa: F811
    """If this fails, nobody knows who changed rights in a cluster with controllers of their own, or who tried to."""
    with cluster(tmp_path, ("controller", "broker", "broker"), SETTINGS) as (controller, one, other):

        def events(kind: str) -> list[dict[str, Any]]:
            said = bare("events", "--json", "--type", kind, "--bootstrap", one.bootstrap, "--timeout", str(TIMEOUT_S))
            return [json.loads(line) for line in said.out.splitlines()]

        # Also the right of nodes to act for the cluster.
        assert create(one, NODES, acl(Permission.ALLOW, NODES)) == {0}
        assert create(other, NODES, acl(Permission.DENY, STRANGER)) == {0}
        # With fewer than three brokers it is created late.
        until(lambda: "__cluster_events" in topics(one.port), "the topic of events", TIMEOUT_S)

        def changes() -> list[dict[str, Any]]:
            found = events("acls_created")
            return found if len(found) == 2 else []

        created = until(changes, "both changes", TIMEOUT_S)
        assert {each["broker"] for each in created} <= {one.node_id, other.node_id}
        for event, host in zip(created, (NODES, STRANGER), strict=True):
            assert [each["host"] for each in event["acls"]] == [host]
            assert (event["by"]["host"], event["by"]["principal"]) == (NODES, "User:ANONYMOUS")

        refused = {int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)}
        until(lambda: create(one, STRANGER, acl(Permission.ALLOW, STRANGER)) == refused, "the denial", TIMEOUT_S)
        (denied, *_) = until(
            lambda: [each for each in events("access_denied") if each["api"] == "CREATE_ACLS"], "its event", TIMEOUT_S
        )
        assert (denied["host"], denied["operation"], denied["reason"]) == (STRANGER, "ALTER", "denied")
        assert denied["rule"]["host"] == STRANGER
        assert denied["broker"] == controller.node_id
