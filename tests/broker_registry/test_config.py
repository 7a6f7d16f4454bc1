"""The settings of `schema-registry.properties`: those with an effect, refusals, and warnings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.http.listeners import Listener
from broker_registry.config import load_config
from tests.support.broker import BrokerProcess
from tests.support.registry import READY_S, RegistryProcess
from tests.support.wait import until


def write(directory: Path, *lines: str) -> Path:
    path = directory / "schema-registry.properties"
    path.write_text("\n".join(lines))
    return path


def test_a_file_of_confluents_registry_is_read_as_it_is(tmp_path: Path) -> None:
    """If this fails, an operator who moves has to write the settings again."""
    path = write(
        tmp_path,
        "listeners=http://0.0.0.0:8085",
        "kafkastore.bootstrap.servers=SASL_SSL://kafka-1:9093,SASL_SSL://kafka-2:9093",
        "kafkastore.sasl.mechanism=PLAIN",
        "kafkastore.topic=_schemas_test",
        "kafkastore.topic.replication.factor=1",
        "schema.compatibility.level=full_transitive",
        "mode.mutability=false",
        "debug=false",
        "leader.eligibility=true",
    )
    config = load_config(path)
    assert config.listeners == (Listener("0.0.0.0", 8085),)
    assert config.bootstrap == "kafka-1:9093,kafka-2:9093"
    assert config.client_settings == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    assert (config.topic, config.replication, config.defaults.level) == ("_schemas_test", 1, "FULL_TRANSITIVE")
    assert not config.defaults.allows_mode_changes
    assert config.warnings == (
        f"{path}: debug has no effect",
        f"{path}: leader.eligibility has no effect without brokercy.leader.election=true",
    )


def test_without_a_file_the_registry_listens_on_this_machine_only() -> None:
    """If this fails, a registry without a login is open to the network."""
    config = load_config(None)
    assert config.listeners == (Listener("127.0.0.1", 8081),)
    assert (config.bootstrap, config.topic, config.warnings) == ("", "_schemas", ())


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("listeners=ftp://0.0.0.0:8081", "ftp is no protocol, and listener.protocol.map does not map it"),
        ("listener.protocol.map=A:ftp", "NAME:http or NAME:https is expected"),
        ("listeners=http://0.0.0.0", "'0.0.0.0' is not an address: HOST:PORT is expected, such as 127.0.0.1:8081"),
        ("listeners=http://0.0.0.0:99999", "port 99999 is out of range"),
        ("kafkastore.connection.url=zk:2181", "is an address of ZooKeeper"),
        ("kafkastore.ssl.provider=Conscrypt", "protects the connection to the brokers"),
        ("kafkastore.bootstrap.servers=HTTP://a:1", "allowed protocols are PLAINTEXT"),
        ("enable.fips=true", "not validated by FIPS 140"),
        ("kafkastore.timeout.ms=soon", "kafkastore.timeout.ms"),
        ("schema.compatibility.level=sideways", "schema.compatibility.level"),
    ],
)
def test_settings_that_cannot_hold_are_refused(tmp_path: Path, line: str, part: str) -> None:
    """If this fails, a registry runs open, or on a wrong cluster, because a setting was not understood."""
    with pytest.raises(ClientError, match=r".") as caught:
        load_config(write(tmp_path, line))
    assert part in str(caught.value)


def test_the_command_takes_the_file_and_its_options_before_it(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """If this fails, `broker-registry schema-registry.properties` does not start as it did with Confluent's."""
    path = write(tmp_path, f"kafkastore.bootstrap.servers=PLAINTEXT://{broker.bootstrap}", f"kafkastore.topic={topic}")
    registry = RegistryProcess("", tmp_path, [str(path), "--json"])
    try:
        ready = until(registry.child.stdout, "the registry to serve", READY_S)
        [registry.url] = json.loads(ready)["urls"]
        assert registry.get("/subjects") == []
        assert registry.get("/_health")["healthy"] is True
        registry.stop()
    finally:
        registry.kill()


def test_a_wrong_option_is_named() -> None:
    """If this fails, the reason why the registry does not start is a traceback."""
    command = [sys.executable, "-m", "broker_registry", "--listen", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "broker-registry: --listen: 'nowhere' is not an address: HOST:PORT is expected, such as 127.0.0.1:8081\n"
    )


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (["listeners=https://127.0.0.1:0"], "listeners: https needs a key and a certificate"),
        (
            ["authentication.method=BASIC", "brokercy.registry.users.mechanism=SCRAM-SHA-512"],
            "the users of the cluster log in with SASL",
        ),
        (
            ["listeners=http://127.0.0.1:0", "brokercy.leader.election=true", "inter.instance.protocol=https"],
            "the instances reach each other by https, and this one has no such listener",
        ),
    ],
)
def test_a_file_that_contradicts_itself_stops_the_start(tmp_path: Path, lines: list[str], part: str) -> None:
    """If this fails, a registry starts without the protection that its file names, or ends with a traceback."""
    command = [sys.executable, "-m", "broker_registry", str(write(tmp_path, *lines))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert part in done.stderr
    assert "Traceback" not in done.stderr
