"""Settings from a file and a command line: a setting is understood, or rejected with one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.config import BrokerConfig, ConfigError, sources
from broker_cy.config.authorizer import STANDARD, authorizer_settings
from broker_cy.config.definitions import BROKER, OWN, Support

# As Kafka 4.3 ships it (config/server.properties), without its comments.
SHIPPED = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.from_properties({name.replace("_", "."): value for name, value in settings.items()})


def test_no_arguments() -> None:
    """If this fails, `broker-cy start` without arguments does not start."""
    found = BrokerConfig.from_properties({})
    assert [str(listener) for listener in found.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert found.advertised_listeners == found.listeners
    assert (found.node_id, found["broker.id"], found.log_dirs) == (1, 1, (Path("data"),))
    assert found.warnings == []


def test_file_that_kafka_ships(tmp_path: Path) -> None:
    """An operator's existing file must start the broker, which must report the lines that change nothing."""
    file = tmp_path / "server.properties"
    file.write_text(SHIPPED)
    found = BrokerConfig.from_properties(sources(file))
    assert [str(listener) for listener in found.listeners] == ["PLAINTEXT://:9092"]
    assert [str(listener) for listener in found.advertised_listeners] == ["PLAINTEXT://localhost:9092"]
    assert found.log_dirs == (Path("/tmp/kraft-combined-logs"),)
    (event,) = found.warnings
    assert "num.network.threads" in str(event.fields["settings"])
    assert [str(listener) for listener in found.network.controller_listeners] == ["CONTROLLER://:9093"]
    assert "num.partitions" not in str(event.fields["settings"])


def test_options_replace_the_file(tmp_path: Path) -> None:
    """The command line must override the file."""
    file = tmp_path / "server.properties"
    file.write_text(SHIPPED)
    found = BrokerConfig.from_properties(
        sources(file, data_dir="/d", listener="[::1]:0", overrides=["num.partitions = 7", "log.dir=/e"])
    )
    assert [str(listener) for listener in found.listeners] == ["PLAINTEXT://[::1]:0"]
    assert found.advertised_listeners == found.listeners
    assert found["num.partitions"] == 7
    assert found.log_dirs == (Path("/e"),)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"num.partitons": "3"},
            "unknown setting num.partitons: remove it or correct its name (did you mean num.partitions?)",
        ),
        ({"retention.ms": "3"}, "remove it or correct its name (the broker's default for topics is log.retention.ms)"),
        (
            {"zookeeper.connect": "x"},
            "zookeeper.connect without process.roles: this is the file of a broker with ZooKeeper",
        ),
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ({"num.partitions": "x"}, "Invalid value x for configuration num.partitions: Not a number of type INT"),
        ({"ssl.provider": "x"}, "ssl.provider=x chooses cryptography of Java, and this broker uses OpenSSL: remove it"),
        ({"listeners": "PLAINTEXT://:8,SSL://:9"}, "listener SSL: SSL needs a key and a certificate"),
        ({"listeners": ""}, "Configuration 'listeners' must not be empty. Valid values include: any non-empty value"),
        ({"listeners": "PLAINTEXT:9"}, "Unable to parse PLAINTEXT:9 to a broker endpoint"),
        ({"listeners": "PLAINTEXT://:99999"}, "Unable to parse PLAINTEXT://:99999 to a broker endpoint"),
        ({"listeners": "FOO://:9"}, "No security protocol defined for listener FOO"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "Each listener must have a different name"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "cannot use the nonroutable meta-address 0.0.0.0"),
        ({"listener.security.protocol.map": "PLAINTEXT:FOO"}, "Invalid security protocol `FOO` defined in"),
        ({"inter.broker.listener.name": "X"}, "Listener with name X defined in inter.broker.listener.name not found"),
        ({"security.inter.broker.protocol": "SSL"}, "inter.broker.listener.name must be a listener name defined in"),
        ({"process.roles": "broker"}, "either controller.quorum.bootstrap.servers must contain a set of bootstrap"),
        ({"process.roles": "controller"}, "must contain at least one value appearing in the 'listeners'"),
        ({"process.roles": "broker,broker"}, "process.roles"),
        (
            {"process.roles": "controller", "listeners": "PLAINTEXT://:1,CONTROLLER://:2"},
            "The listeners config must only contain KRaft controller listeners from controller.listener.names",
        ),
        (
            {"process.roles": "broker", "controller.quorum.voters": "1@a:1,2@b:2"},
            "the node id 1 must not be included in the set of voters controller.quorum.voters=1@a:1,2@b:2",
        ),
        (
            {
                "process.roles": "broker",
                "controller.listener.names": "CONTROLLER",
                "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
            },
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration",
        ),
        ({"process.roles": "x"}, "Invalid value x for configuration process.roles: String must be one of: broker, con"),
        ({"controller.quorum.voters": "1@a:1,1@b:2"}, "names node 1 twice: each voter has its own node.id"),
        ({"controller.quorum.voters": "2@b:2"}, "the node id 1 must be included in the set of voters"),
        ({"controller.quorum.voters": "b:2"}, "Each entry should be in the form `{id}@{host}:{port}`."),
        ({"node.id": "1", "broker.id": "2"}, "You must set `node.id` to the same value as `broker.id`."),
        ({"log.dirs": "/a,,/b"}, "Configuration 'log.dirs' values must not be empty."),
        (
            {"log.dirs": "/a,/b", "cordoned.log.dirs": "/c"},
            "present in log.dirs or log.dir. Missing entries : /c",
        ),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.retention.minutes": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip can be set to zero only if"),
        ({"max.connections.per.ip.overrides": "a b:1"}, "contains invalid addresses : a b"),
        ({"max.connections.per.ip.overrides": "a:x"}, 'For input string: "x"'),
        ({"connections.max.idle.ms": "0"}, "to prevent failed authentication responses from timing out"),
        (
            {"authorizer.class.name": "a.B"},
            "authorizer.class.name=a.B cannot run here, and without it every client may do everything: use org.",
        ),
        ({"authorizer.class.name": STANDARD, "super.users": "User:a;bob"}, "principalType:principalName but got bob"),
        ({"authorizer.class.name": STANDARD, "super.users": "User:"}, "principalType:principalName but got User:"),
        (
            {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "yes"},
            "Invalid value yes for configuration allow.everyone.if.no.acl.found",
        ),
        (
            {"create.topic.policy.class.name": "a.B"},
            "create.topic.policy.class.name=a.B cannot run here, and it decides which topics clients may create",
        ),
        ({"listener.name.plaintext.ssl.provider": "x"}, "chooses cryptography of Java"),
        ({"group.consumer.session.timeout.ms": "1"}, "must be greater than or equal to group.consumer.min.session"),
    ],
)
def test_refused(settings: dict[str, str], message: str) -> None:
    """A setting that is ignored or misread makes the broker do something else than its operator believes."""
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties(settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_authorizer() -> None:
    """If this fails, super.users does not name every super user, or a setting without an authorizer looks effective."""
    settings = {"super.users": " User:a; User:b:c ;;", "allow.everyone.if.no.acl.found": "TRUE"}
    config = BrokerConfig.from_properties({"authorizer.class.name": STANDARD, **settings})
    assert authorizer_settings(config) == (frozenset({"User:a", "User:b:c"}), True)
    assert not config.warnings
    config = BrokerConfig.from_properties(settings)
    assert authorizer_settings(config) is None
    assert [event.fields["settings"] for event in config.warnings] == [", ".join(settings)]
    bare = BrokerConfig.from_properties({"authorizer.class.name": STANDARD})
    assert authorizer_settings(bare) == (frozenset(), False)


def test_every_setting_is_decided() -> None:
    """Each of Kafka's settings is effective, reported or refused: none may be silently ignored."""
    assert len(BROKER) - len(OWN) == 340
    for name, setting in BROKER.items():
        text = setting.default_text
        if setting.support is not Support.INERT or text is None or setting.required:
            continue
        if name == "controller.quorum.bootstrap.servers":
            text = "localhost:9093"
        warnings = BrokerConfig.from_properties({name: text}).warnings
        assert [(event.text, event.fields["settings"]) for event in warnings] == [("settings have no effect yet", name)]


def test_several_listeners() -> None:
    """A broker in two networks returns to each client the address in the client's network."""
    found = BrokerConfig.from_properties(
        {
            "listeners": "INNER://127.0.0.1:0,OUTER://0.0.0.0:9094",
            "advertised.listeners": "INNER://10.0.0.1:9092,OUTER://example.org:9094",
            "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT",
            "inter.broker.listener.name": "inner",
        }
    )
    assert [listener.name for listener in found.listeners] == ["INNER", "OUTER"]
    assert found.advertised_listeners[1].host == "example.org"
    assert found.network.inter_broker == "INNER"
    assert str(found.listeners[0]) == "INNER://127.0.0.1:0"


def test_dynamic_levels() -> None:
    """A value set for one broker must win over the cluster's, and that over the file's, including synonyms."""
    found = config(log_retention_hours="72", log_segment_bytes="2097152")
    seen: list[frozenset[str]] = []
    found.on_change(seen.append, "log.segment.bytes")
    assert found.apply_dynamic({}, {"log.segment.bytes": "3145728", "log.roll.ms": "5000"}) == {
        "log.segment.bytes",
        "log.roll.ms",
    }
    assert found["log.segment.bytes"] == 3145728
    found.apply_dynamic({"log.segment.bytes": "4194304"}, {"log.segment.bytes": "3145728"})
    assert found["log.segment.bytes"] == 4194304
    assert found["log.roll.ms"] is None
    found.apply_dynamic({}, {"log.segment.bytes": "nonsense", "num.partitions": "9"})
    assert found["log.segment.bytes"] == 2097152
    assert found["num.partitions"] == 1
    assert len(seen) == 3
    assert found.apply_dynamic({}, {}) == frozenset()


def test_effective_leaves_the_broker_alone() -> None:
    """Validating a change must not apply it."""
    found = config()
    assert found.effective({"message.max.bytes": "5"}, {})["message.max.bytes"] == 5
    assert found["message.max.bytes"] == 1048588
