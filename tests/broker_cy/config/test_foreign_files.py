"""Files of real clusters, and the effect of each of their settings.

Each file in `tests/fixtures/foreign_files` has the names that such files contain (of Kafka 0.10 to 4.3, Strimzi,
cp-ansible, and images of Debezium, wurstmeister and Bitnami), with values of our own, and the verdict of each.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.config import BrokerConfig, ConfigError, findings, foreign, places, sources
from broker_cy.config.definitions import BROKER, BROKER_INTERNAL, INTERNAL, Support

FILES = sorted((Path(__file__).parents[2] / "fixtures" / "foreign_files").glob("*.tsv"))


def settings_of(file: Path) -> list[tuple[str, str, str]]:
    """Name, value and verdict of each line."""
    rows = [line.split("\t") for line in file.read_text().splitlines()]
    return [(name, value, verdict) for name, value, verdict in rows]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_setting_has_its_verdict(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a file that worked with Kafka does not start, or starts without settings that protect its data."""
    monkeypatch.delenv("KCY_NOT_SET", raising=False)
    rows = settings_of(file)
    found = findings.examine({name: value for name, value, _ in rows}, {})
    verdicts = {each.setting: each.kind.value for each in reversed(found.found)}
    assert {name: verdicts.get(name, "fine") for name, _, _ in rows} == {name: verdict for name, _, verdict in rows}
    for each in found.found:
        assert "\n" not in each.sentence
        assert each.setting in each.sentence or "node.id" in each.sentence
        # A reason, and what to do.
        assert each.kind is not findings.Kind.REFUSED or ": " in each.sentence, each.sentence


def test_there_is_a_file_of_each_source() -> None:
    """An empty directory would make the test above pass."""
    names = {file.stem.partition("_")[0] for file in FILES}
    assert names >= {"kafka", "strimzi", "cp", "debezium", "wurstmeister", "bitnami"}
    assert sum(len(settings_of(file)) for file in FILES) > 300


def test_every_refused_setting_has_a_reason() -> None:
    """If this fails, the message of a refused setting is an assertion of ours."""
    for name, setting in BROKER.items():
        row = foreign.row_of(name)
        assert (setting.support is Support.REFUSED or name == "authorizer.class.name") == (row is not None), name
        assert row is None or row.kind is foreign.Class.REFUSED


def test_the_table_is_sorted_and_has_no_name_of_a_setting_without_a_reason() -> None:
    """If this fails, a setting with an effect is reported as one of another program."""
    names = [row.name for row in foreign.ROWS.values()]
    assert names == sorted(names)
    known = {*BROKER, *BROKER_INTERNAL, *INTERNAL}
    for row in foreign.ROWS.values():
        stem = row.name.removesuffix("*")
        covered = {name for name in known if name == row.name or (row.name.endswith("*") and name.startswith(stem))}
        assert not covered or row.kind is foreign.Class.REFUSED, row.name
        assert (row.kind is foreign.Class.OTHER) == (not row.text), row.name


def test_settings_beside_which_a_removed_one_has_no_effect() -> None:
    """If this fails, a file with listeners does not start because of settings that only count without listeners."""
    listeners = {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://a:9092"}
    for settings in (
        {**listeners, "port": "tcp://10.0.0.1:9092", "host.name": "a", "advertised.host.name": "a"},
        {"process.roles": "broker,controller", "zookeeper.connect": "a:2181"},
        {"process.roles": "broker,controller", "zookeeper.metadata.migration.enable": "FALSE"},
        {"enable.fips": "false", "confluent.tier.enable": "false"},
        {"delegation.token.master.key": "a", "delegation.token.secret.key": "a"},
    ):
        assert BrokerConfig.from_properties(settings).warnings
    with pytest.raises(ConfigError, match=r"advertised.host.name was removed in Kafka 3.0: write it into"):
        BrokerConfig.from_properties({"listeners": "PLAINTEXT://:9092", "advertised.host.name": "a"})


def written(tmp_path: Path, text: str) -> BrokerConfig:
    file = tmp_path / "server.properties"
    file.write_text(text)
    return BrokerConfig.from_properties(sources(file), places(file, ()))


FILE = """\
process.roles=broker,controller
confluent.license=a
confluent.support.customer.id=b
cruise.control.metrics.topic=c
# the next ones are of older clusters
inter.broker.protocol.version=3.9
zookeeper.connect=a:2181
zookeeper.set.acl=true
foo.bar=secret
num.parts=3
num.io.threads=3
num.network.threads=3
"""


def test_warnings_are_grouped(tmp_path: Path) -> None:
    """A file of Confluent has a hundred of them, which would hide everything else at the start."""
    found = {event.text: event.fields for event in written(tmp_path, FILE).warnings}
    assert found["settings of other programs have no effect"] == {
        "count": 3,
        "settings": "confluent.* (2), cruise.control.* (1)",
    }
    assert found["unknown settings have no effect"] == {
        "count": 2,
        "settings": "foo.bar (line 9), num.parts (line 10, did you mean num.partitions?)",
    }
    assert found["removed settings have no effect"] == {
        "count": 3,
        "settings": "inter.broker.protocol.version (line 6), zookeeper.connect (line 7), zookeeper.set.acl (line 8)",
        "reasons": f"broker-cy storage check -c {tmp_path}/server.properties",
    }
    assert found["settings have no effect yet"] == {
        "count": 2,
        "settings": "num.io.threads (line 11), num.network.threads (line 12)",
    }
    assert len(found) == 4
    assert "secret" not in str(written(tmp_path, FILE).warnings)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_has_a_warning_of_each_kind_at_most(file: Path) -> None:
    """If this fails, warnings about a Kafka server.properties flood the startup log and hide the line that matters."""
    found = findings.examine({name: value for name, value, _ in settings_of(file)}, {}).events()
    texts = [event.text for event in found]
    assert len(texts) == len(set(texts)) <= 4


def test_a_single_reason_is_in_the_warning() -> None:
    """If this fails, an operator has to run another command to learn what replaces a setting."""
    (event,) = BrokerConfig.from_properties({"reserved.broker.max.id": "3"}).warnings
    assert event.fields == {
        "count": 1,
        "settings": "reserved.broker.max.id",
        "reasons": "was removed in Kafka 4.0 and has no effect: node.id has no reserved range",
    }


def test_a_line_lists_twenty_names(tmp_path: Path) -> None:
    """If this fails, one line of the log is as long as the file."""
    config = written(tmp_path, "".join(f"qqqq{number}.zzzz=1\n" for number in range(50)))
    (event,) = config.warnings
    assert event.fields["count"] == 50
    assert str(event.fields["settings"]).endswith("qqqq19.zzzz (line 20) and 30 more")


def test_a_file_of_another_kind_is_refused_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker compares names for minutes before it starts with a file that is not for it."""
    monkeypatch.setattr(findings, "UNKNOWN_MAX", 10)
    BrokerConfig.from_properties({f"qqqq{number}.zzzz": "1" for number in range(10)})
    with pytest.raises(ConfigError, match="there are more than 10 unknown settings: name the file of a broker"):
        BrokerConfig.from_properties({f"qqqq{number}.zzzz": "1" for number in range(11)})


@pytest.mark.parametrize(
    "line", ["foo.bar=1", "num.io.threads=8", "confluent.license=a", "log.message.format.version=2.8"]
)
def test_strict_refuses_what_has_no_effect(line: str, tmp_path: Path) -> None:
    """If this fails, a cluster that was set up with care starts with a setting that does nothing."""
    assert written(tmp_path, f"node.id=1\n{line}\n").warnings
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, f"brokercy.config.strict=true\n{line}\n")
    name = line.partition("=")[0]
    assert str(caught.value).startswith(f"{tmp_path}/server.properties: line 2: ")
    assert name in str(caught.value)
    assert not written(tmp_path, "brokercy.config.strict=true\nnum.partitions=3\n").warnings


def test_strict_refuses_settings_of_tls_without_a_listener(tmp_path: Path) -> None:
    """They are found only after all values were read."""
    with pytest.raises(ConfigError, match=r"line 2: ssl.keystore.type has no effect yet"):
        written(tmp_path, "brokercy.config.strict=true\nssl.keystore.type=PEM\n")


def test_the_message_names_the_line_and_counts_the_others(tmp_path: Path) -> None:
    """If this fails, an operator starts the broker once for each of ten lines."""
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, "node.id=1\nport=9092\nprincipal.builder.class=a.B\nnum.partitons=3\n")
    file = tmp_path / "server.properties"
    assert str(caught.value) == (
        f"{file}: line 2: port was removed in Kafka 3.0: write the port into listeners, such as "
        f"listeners=PLAINTEXT://:9092 (and 2 more: broker-cy storage check -c {file} lists them)"
    )
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, "node.id=1\n\nnum.partitions=x\n")
    assert str(caught.value).startswith(f"{file}: line 3: Invalid value x for configuration num.partitions")
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, "node.id=1\n\n\nsasl.jaas.config=x\n")
    assert str(caught.value).startswith(f"{file}: line 4: setting sasl.jaas.config must be prefixed")


def test_all_problems_are_listed(tmp_path: Path) -> None:
    """`broker-cy storage check` is only useful if it shows all problems in one run."""
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\nport=9092\nnum.io.threads=3\nfoo.bar=${env:X}\n")
    assert len(BrokerConfig.problems(sources(file), places(file, ()))) == 3
    file.write_text("node.id=1\nnum.io.threads=3\nnum.partitions=0\n")
    assert BrokerConfig.problems(sources(file), places(file, ())) == [
        f"{file}: line 2: num.io.threads has no effect yet: remove it",
        f"{file}: line 3: Invalid value 0 for configuration num.partitions: Value must be at least 1",
    ]
    file.write_text("node.id=1\nnum.partitions=3\n")
    assert BrokerConfig.problems(sources(file), places(file, ())) == []


@pytest.mark.parametrize(
    "name",
    [
        "zookeeper.connection.timeout.ms",
        "zookeeper.set.acl",
        "zookeeper.metadata.migration.enable",
        "zookeeper.conect",
        "zookeper.connect",
        "Zookeeper.Connect",
        "zookeeper_connect",
    ],
)
def test_a_setting_of_zookeeper_without_roles_is_refused(name: str) -> None:
    """If this fails, a broker with ZooKeeper becomes a new, empty cluster of its own."""
    with pytest.raises(ConfigError, match=rf"^{name} without process.roles: this is the file of a broker with ZooK"):
        BrokerConfig.from_properties({"broker.id": "1", "num.partitons": "3", name: "false"})
    kraft = {"process.roles": "broker,controller", name: "false"}
    (event,) = BrokerConfig.from_properties(kraft).warnings
    assert name in str(event.fields["settings"])


def test_roles_without_a_value_are_reported_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a missing variable makes a file of KRaft look like one with ZooKeeper."""
    monkeypatch.delenv("KCY_NOT_SET", raising=False)
    with pytest.raises(ConfigError, match=r"^process.roles: \$\{env:KCY_NOT_SET\} names an unknown provider"):
        BrokerConfig.from_properties({"process.roles": "${env:KCY_NOT_SET}", "zookeeper.connect": "a"})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("listeners=", "Configuration 'listeners' must not be empty."),
        ("process.roles=", "Configuration 'process.roles' must not be empty."),
        ("log.dirs=", "Configuration 'log.dirs' must not be empty."),
        ("log.dirs=a,,b", "Configuration 'log.dirs' values must not be empty."),
        ("process.roles=broker", "If using process.roles, either"),
        ("inter.broker.listener.name=X", "Listener with name X defined in inter.broker.listener.name not found"),
        ("listeners=X", "Error creating broker listeners from '[X]'"),
        (
            "create.topic.policy.class.name=",
            "create.topic.policy.class.name is empty, and must name a class: remove it",
        ),
        ("principal.builder.class=", "principal.builder.class is empty, and must name a class: remove it"),
    ],
)
def test_a_message_has_a_place_and_a_remedy(line: str, message: str, tmp_path: Path) -> None:
    """If this fails, an operator has to search the file for what the message is about."""
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, f"# a\n{line}\n")
    assert str(caught.value).startswith(f"{tmp_path}/server.properties: line 2: {message}")


def test_a_broker_of_zookeeper_says_so_first() -> None:
    """If this fails, the first message about such a file is about its broker.id."""
    with pytest.raises(ConfigError, match=r"^zookeeper.connect without process.roles: this is the file of a broker"):
        BrokerConfig.from_properties({"broker.id": "-1", "port": "9092", "zookeeper.connect": "a:2181"})
