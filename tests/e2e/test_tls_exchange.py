"""Three running nodes with TLS get certificates of another authority: through their files, and through AlterConfigs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.e2e.test_sasl_cluster import INNER, produce
from tests.e2e.test_tls_cluster import TlsNode, nodes_of
from tests.support import needs
from tests.support.certificates import Authority
from tests.support.cluster import in_sync, running
from tests.support.confluent import read_all
from tests.support.wait import until

needs.require(needs.tls)

TIMEOUT_S = 60.0
LISTENERS = (INNER, "CONTROLLER")


def alter(node: TlsNode, settings: dict[str, str]) -> None:
    """Change settings of one node, for both listeners between nodes. Raises KafkaException."""
    changes = [
        ConfigEntry(f"listener.name.{name.lower()}.{each}", text, incremental_operation=AlterConfigOpType.SET)
        for name in LISTENERS
        for each, text in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.BROKER, str(node.node_id), incremental_configs=changes)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(TIMEOUT_S)


def trust(node: TlsNode, *authorities: Authority) -> None:
    (node.directory / "authority.pem").write_text("".join(each.pem for each in authorities))


def exchanges(nodes: Sequence[TlsNode]) -> list[int]:
    """The number of exchanges that each node has reported."""
    return [(node.stdout() + node.stderr()).count("certificate exchanged") for node in nodes]


@pytest.mark.full
def test_nodes_change_to_another_authority(tmp_path: Path) -> None:
    """If this fails, a cluster has to stop for certificates of another authority; or a node keeps the old certificate
    for its outgoing connections, and is cut off when the others trust only the new authority.
    """
    first, second = Authority(), Authority("Second")
    nodes = nodes_of(tmp_path, first)
    with running(nodes):
        admin = AdminClient({"bootstrap.servers": nodes[0].bootstrap})
        for done in admin.create_topics([NewTopic("t", 3, 3)]).values():
            done.result(TIMEOUT_S)
        store = {"ssl.keystore.location": str(second.issue("node-1").write_pkcs12(nodes[0].directory / "second.p12"))}
        with pytest.raises(KafkaException, match="could not connect to each other"):
            alter(nodes[0], store)
        for node in nodes:
            trust(node, first, second)
        until(lambda: min(exchanges(nodes)) == len(LISTENERS), "trust stores that were read again", TIMEOUT_S)
        alter(nodes[0], store)
        second.issue("node-2").write_pkcs12(nodes[1].directory / "node.p12")
        until(lambda: min(exchanges(nodes[:2])) == 2 * len(LISTENERS), "certificates that were exchanged", TIMEOUT_S)
        # The third node no longer accepts or presents certificates of the first authority: other nodes have to connect
        # to it with the certificates that they got while running.
        nodes[2].stop()
        nodes[2].authority = nodes[2].issuer = second
        voters = ",".join(f"{node.node_id}@{node.host}:{node.controller_port}" for node in nodes)
        nodes[2].write_properties(voters)
        nodes[2].launch()
        until(lambda: in_sync(nodes[0].port, "t", 3), "the third replica", TIMEOUT_S)
        for node in nodes[:2]:
            trust(node, second)
        until(lambda: min(exchanges(nodes[:2])) == 3 * len(LISTENERS), "the first authority withdrawn", TIMEOUT_S)
        nodes[2].kill()
        nodes[2].launch()
        until(lambda: nodes[2].brokers() == 3, "the third node again", TIMEOUT_S)
        until(lambda: in_sync(nodes[2].port, "t", 3), "its replicas", TIMEOUT_S)
        produce(nodes[2].bootstrap, "t", [b"%d" % number for number in range(300)])
        assert sum(len(read_all(nodes[0].bootstrap, "t", partition)) for partition in range(3)) == 300
