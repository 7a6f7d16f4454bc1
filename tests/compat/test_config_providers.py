"""Config providers return the same values as in Apache Kafka, except for unresolved variables, whose text Kafka
keeps.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from bench.launch import kafka_dist
from broker_cy.config import BrokerConfig, ConfigError
from broker_cy.core.config_def.providers import DIRECTORY, ENV, FILE
from tests.support import needs
from tests.support.kafka_peer import KafkaPeer

pytestmark = [pytest.mark.full, needs.kafka]

TIMEOUT_S = 60.0


class Peer(KafkaPeer):
    """The JVM that runs the tools of all tests has the environment of its start. This test sets variables."""

    run_tool = staticmethod(kafka_dist.run_tool)


def described(directory: Path, settings: dict[str, str]) -> dict[str, str | None]:
    """The settings of Kafka's broker that was started with these."""
    peer = Peer(directory, settings)
    try:
        peer.start()
        client = AdminClient({"bootstrap.servers": f"{peer.host}:{peer.port}"})
        (answer,) = client.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
        return {name: entry.value for name, entry in answer.result(TIMEOUT_S).items()}
    finally:
        peer.close()


def test_the_same_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a properties file with config providers has other values here than in Kafka."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "number").write_text("7\n")
    (secrets / "rack").write_text("a b\n")
    (secrets / "sizes.properties").write_text(
        "# sizes\nsegment = 1048576\nindex=20\\\n  480\nname=Zo\\u00eb\n", "utf-8"
    )
    monkeypatch.setenv("KCY_HOURS", "55")
    monkeypatch.setenv("KCY_NESTED", "${env:KCY_HOURS}")
    monkeypatch.delenv("KCY_NOT_SET", raising=False)
    monkeypatch.setenv("OTHER_HOURS", "66")
    settings = {
        "config.providers": "env,file,dir",
        "config.providers.env.class": ENV,
        "config.providers.env.param.allowlist.pattern": "KCY_.*",
        "config.providers.file.class": FILE,
        "config.providers.file.param.allowed.paths": f"/usr,{secrets}",
        "config.providers.dir.class": DIRECTORY,
        "num.partitions": f"${{dir:{secrets}:number}}",
        "log.retention.hours": "${env:KCY_HOURS}",
        "log.segment.bytes": f"${{file:{secrets}/sizes.properties:segment}}7",
        "log.index.size.max.bytes": f"${{file:{secrets}/../secrets/sizes.properties:index}}",
        "broker.rack": f"<${{file:{secrets}/sizes.properties:name}}${{env:KCY_HOURS}}>",
        "sasl.kerberos.service.name": "${env:KCY_NESTED}",
    }
    # Variables that Kafka keeps as text, and broker-cy refuses.
    unresolved = {
        "group.initial.rebalance.delay.ms": "3000",
        "ssl.keystore.type": "${env:KCY_NOT_SET}",
        "ssl.keystore.location": "${env:OTHER_HOURS}",
        "ssl.truststore.location": "${nobody:KCY_HOURS}",
        "sasl.oauthbearer.expected.issuer": f"${{file:{tmp_path}/none.properties:x}}",
    }
    kafka = described(tmp_path / "kafka", settings | unresolved)
    ours = BrokerConfig.from_properties(settings)
    for name in ("num.partitions", "log.retention.hours", "log.segment.bytes", "log.index.size.max.bytes"):
        assert kafka[name] == str(ours[name]), name
    assert kafka["broker.rack"] == ours["broker.rack"] == "<Zoë55>"
    # Kafka's broker resolves resolved values again when it merges them with dynamic settings.
    assert (kafka["sasl.kerberos.service.name"], ours["sasl.kerberos.service.name"]) == ("55", "${env:KCY_HOURS}")
    for name, text in unresolved.items():
        assert kafka[name] == text, name
        if "$" in text:
            with pytest.raises(ConfigError, match=r"is not set|is not allowed|names an unknown provider"):
                BrokerConfig.from_properties({**settings, name: text})


def test_the_newline_of_a_file_of_a_directory(tmp_path: Path) -> None:
    """If this fails, Kafka also drops the newline, and the documentation is wrong."""
    (tmp_path / "rack").write_text("a\n")
    settings = {
        "config.providers": "dir",
        "config.providers.dir.class": DIRECTORY,
        "broker.rack": f"<${{dir:{tmp_path}:rack}}>",
    }
    assert described(tmp_path / "kafka", settings)["broker.rack"] == "<a\n>"
    assert BrokerConfig.from_properties(settings)["broker.rack"] == "<a>"
