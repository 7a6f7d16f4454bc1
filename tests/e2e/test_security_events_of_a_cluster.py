"""The security events of a cluster with a separate controller: every node knows the author of a change, and the
controller's denials are also written, although it has no topics.

All connections are anonymous in the first test, so that ACLs are by host.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from broker_cy.admin import AdminClient, ClientError
from broker_cy.client.login import ClientLogin
from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Operation, PatternType, Permission, ResourceType
from broker_cy.security.sasl.exchange import Login
from broker_cy.wire import messages
from tests.broker_cy.commands.conftest import TIMEOUT_S, Cli, bare  # noqa: F401 (a fixture)
from tests.compat.differential.client import Client
from tests.e2e.test_sasl_cluster import INNER, SaslNode
from tests.support import needs
from tests.support.certificates import Authority
from tests.support.cluster import ClusterNode, cluster, running, topics
from tests.support.wait import until

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
NODES, STRANGER = "127.0.0.1", "127.0.0.2"


def acl(permission: Permission, host: str) -> Any:
    """An ACL for all operations on the cluster."""
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


@pytest.mark.full
def test_the_author_is_known_everywhere(bare: Cli, tmp_path: Path) -> None:  # noqa: F811
    """If this fails, it is unknown who changed ACLs in a cluster with separate controllers, or who tried to."""
    with cluster(tmp_path, ("controller", "broker", "broker"), SETTINGS) as (controller, one, other):

        def events(kind: str) -> list[dict[str, Any]]:
            said = bare("events", "--json", "--type", kind, "--bootstrap", one.bootstrap, "--timeout", str(TIMEOUT_S))
            return [json.loads(line) for line in said.out.splitlines()]

        # This includes the nodes' permission ClusterAction.
        assert create(one, NODES, acl(Permission.ALLOW, NODES)) == {0}
        assert create(other, NODES, acl(Permission.DENY, STRANGER)) == {0}
        # With fewer than three brokers, this topic is created late.
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


class ReportingNode(SaslNode):
    """SASL_SSL between brokers, where the controller also logs in, and SASL_PLAINTEXT at the controller."""

    def __init__(self, directory: Path, node_id: int, roles: str, authority: Authority) -> None:
        super().__init__(directory, node_id, roles, "PLAIN")
        self.authority = authority

    def write_properties(self, voters: str) -> None:
        super().write_properties(voters)
        text = self.properties.read_text().replace(f"{INNER}:SASL_PLAINTEXT", f"{INNER}:SASL_SSL")
        settings: dict[str, object] = {
            "listener.name.inner.ssl.truststore.type": "PEM",
            "listener.name.inner.ssl.truststore.location": self.authority.write_pem(self.directory / "authority.pem"),
        }
        if "broker" in self.roles:
            holder = self.authority.issue("broker")
            settings |= {
                "listener.name.inner.ssl.keystore.type": "PEM",
                "listener.name.inner.ssl.keystore.location": holder.write_pem(self.directory / "broker.pem"),
            }
        else:
            settings |= {"inter.broker.listener.name": INNER, "sasl.mechanism.inter.broker.protocol": "PLAIN"}
        self.properties.write_text(text + "".join(f"{name}={value}\n" for name, value in settings.items()))


@pytest.mark.full
def test_a_controller_logs_in_to_brokers_to_report_refusals(bare: Cli, tmp_path: Path) -> None:  # noqa: F811
    """If this fails, failed logins at a controller are not reported in a cluster whose brokers all require TLS."""
    needs.require(needs.tls)
    authority = Authority()
    nodes = [
        ReportingNode(tmp_path / f"node-{at}", at, role, authority) for at, role in ((1, "controller"), (2, "broker"))
    ]
    for node in nodes:
        node.choose_ports()
    controller, broker = nodes

    async def guess() -> None:
        login = ClientLogin(Login("PLAIN", "mallory", "guessed"))
        async with AdminClient(f"{controller.host}:{controller.controller_port}", timeout_s=10, login=login) as client:
            with pytest.raises(ClientError):
                await client.cluster.features()

    def events() -> list[dict[str, Any]]:
        said = bare("events", "--json", "--type", "login_failed", "--bootstrap", broker.bootstrap)
        return [json.loads(line) for line in said.out.splitlines()]

    with running([controller, broker]):
        until(lambda: "__cluster_events" in topics(broker.port), "the topic of events", TIMEOUT_S)
        asyncio.run(guess())
        (failed, *_) = until(events, "the failed login", TIMEOUT_S)
        assert (failed["broker"], failed["listener"], failed["user"]) == (controller.node_id, "CONTROLLER", "mallory")
        # No other node connects to this listener of the only broker.
        assert broker.counts()[f'broker_cy_authentications_total{{listener="{INNER}",result="success"}}'] >= 1
