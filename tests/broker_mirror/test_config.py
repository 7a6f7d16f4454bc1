"""mm2.properties: settings with an effect, warnings, and errors that name a setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.core.config_def.providers import ENV
from broker_cy.core.config_def.types import ConfigError
from broker_mirror.config import load_config, parse_config
from broker_mirror.flows import flows_of

# The example of Kafka's documentation, with settings that its users add.
EXAMPLE = """\
clusters = A, B
A.bootstrap.servers = A_host1:9092, A_host2:9092
B.bootstrap.servers = B_host1:9092
A->B.enabled = true
A->B.topics = .*
B->A.enabled = true
B->A.topics = .*
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
sync.topic.acls.enabled = false
emit.heartbeats.interval.seconds = 5
tasks.max = 10
A.consumer.fetch.max.bytes = 1000000
B.producer.compression.type = zstd
dedicated.mode.enable.internal.rest = true
"""
CLUSTERS = {"clusters": "A,B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}


def test_a_file_of_mirror_maker_is_read_as_it_is(tmp_path: Path) -> None:
    """If this fails, an operator who moves has to write the settings again, or does not know which ones count."""
    path = tmp_path / "mm2.properties"
    path.write_text(EXAMPLE)
    config = load_config(path)
    assert config.clusters == ("A", "B")
    assert config.properties["A->B.topics"] == ".*"
    assert config.warnings == tuple(
        f"{path}: {name} has no effect"
        for name in (
            "status.storage.replication.factor",
            "config.storage.replication.factor",
            "tasks.max",
            "B.producer.compression.type",
            "dedicated.mode.enable.internal.rest",
        )
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("A->B.topcs", "x", "A->B.topcs is no known setting; is topics meant?"),
        ("A.consumer.fetch.min.byte", "1", "is fetch.min.bytes meant?"),
        ("qqq", "1", "qqq is no known setting$"),
        ("A->C.enabled", "true", "A->C.enabled names the cluster C, but clusters has only A, B"),
        ("A->A.enabled", "true", "A->A.enabled names a flow from a cluster to itself"),
        ("A->B.replication.factor", "x", "Invalid value x for configuration A->B.replication.factor: Not a number"),
        ("replication.factor", "0", "Invalid value 0 for configuration replication.factor: Value must be between 1"),
        ("A->B.enabled", "yes", "configuration A->B.enabled: Expected value to be either true or false"),
        ("A->B.brokercy.flow", "move", "A->B.brokercy.flow: String must be one of: copy, link"),
        ("offset-syncs.topic.location", "elsewhere", "String must be one of: source, target"),
        ("A.consumer.auto.offset.reset", "none", "Invalid value `none` for configuration A.consumer.auto.offset.reset"),
        (
            "A->B.source.consumer.fetch.min.bytes",
            "-1",
            "configuration A->B.source.consumer.fetch.min.bytes: Value must",
        ),
        ("A.ssl.provider", "X", "A.ssl.provider protects connections in a way that is not known here"),
        ("sasl.login.class", "X", "sasl.login.class protects connections in a way that is not known here"),
        (
            "replication.policy.class",
            "my.Policy",
            "my.Policy for configuration replication.policy.class: String must be",
        ),
        ("topic.filter.class", "my.Filter", "my.Filter for configuration topic.filter.class: String must be one of"),
        ("value.converter", "my.Converter", "my.Converter for configuration value.converter: String must be one of"),
        ("A->B.topics.blacklist", "x", "A->B.topics.blacklist is ignored by MirrorMaker 2 .*: use topics.exclude"),
        ("groups.blacklist", "x", "groups.blacklist is ignored by MirrorMaker 2 .*: use groups.exclude"),
        ("A->B.topics", "a,,b", "Configuration 'A->B.topics' values must not be empty"),
        ("clusters", "", "Configuration 'clusters' must not be empty"),
        ("clusters", "A,B->C", "clusters has 'B->C'; an alias has neither blanks nor ->"),
        ("clusters", ",".join(map(str, range(51))), "clusters has 51 aliases; at most 50 are allowed"),
        ("A.client.id", "${env:X}", r"A.client.id: \$\{env:X\} names an unknown provider"),
    ],
)
def test_a_wrong_setting_is_named(name: str, text: str, message: str) -> None:
    """If this fails, a mirror runs without what its operator wrote, such as a filter or a login."""
    with pytest.raises(ConfigError, match=message):
        parse_config({**CLUSTERS, name: text}, "f")


# The examples of Kafka's documentation (Geo-Replication) and of connect/mirror/README.md in one file.
DOCUMENTED = """\
clusters: us-west, us-east
us-west.bootstrap.servers = broker1-west:9092,broker2-west:9092
us-east.bootstrap.servers = broker3-east:9092,broker4-east:9092
topics = .*
groups = consumer-group1, consumer-group2
emit.checkpoints.interval.seconds = 10
us-west->us-east.enabled = true
us-east->us-west.enabled = false
us-west->us-east.topics = foo.*
us-west->us-east.groups = bar.*
us-west->us-east.emit.heartbeats = false
us-west->us-east.sync.group.offsets = true
us-west->us-east.replication.policy.separator = _
us-west.offset.storage.topic = mm2-offsets
us-east.exactly.once.source.support = enabled
us-east.admin.bootstrap.servers = broker3-east:9092
us-east.producer.buffer.memory = 32768
us-west.consumer.isolation.level = read_committed
us-east.security.protocol=SSL
us-east.ssl.truststore.location=/path/to/truststore.jks
us-east.ssl.truststore.password=my-secret-password
us-east.ssl.keystore.location=/path/to/keystore.jks
us-east.ssl.keystore.password=my-secret-password
us-east.ssl.key.password=my-secret-password
dedicated.mode.enable.internal.rest = true
listeners = http://localhost:8080
use.incremental.alter.configs = required
"""


def test_the_examples_of_the_documentation_are_read(tmp_path: Path) -> None:
    """If this fails, a file that its writer copied from Kafka's documentation does not start."""
    path = tmp_path / "mm2.properties"
    path.write_text(DOCUMENTED)
    config = load_config(path)
    assert config.clusters == ("us-west", "us-east")
    documented = "although its documentation names it: use"
    assert config.warnings == tuple(
        f"{path}: {text}"
        for text in (
            "us-west->us-east.emit.heartbeats has no effect, as in MirrorMaker 2, "
            f"{documented} emit.heartbeats.enabled",
            "us-west->us-east.sync.group.offsets has no effect, as in MirrorMaker 2, "
            f"{documented} sync.group.offsets.enabled",
            "us-east.producer.buffer.memory has no effect",
            "us-west.consumer.isolation.level has no effect",
            "dedicated.mode.enable.internal.rest has no effect",
            "listeners has no effect",
            "use.incremental.alter.configs has no effect, as in MirrorMaker 2 since Apache Kafka 4.0",
        )
    )
    flow = next(each for each in flows_of(config) if each.copies)
    assert (flow.remote_topic("foo-topic"), flow.copies_topic("bar")) == ("us-west_foo-topic", False)


def test_the_file_is_named_with_its_setting(tmp_path: Path) -> None:
    """If this fails, an operator of several mirrors searches for the wrong setting."""
    path = tmp_path / "mm2.properties"
    path.write_text("A.bootstrap.servers=a:1\n")
    with pytest.raises(ClientError, match="clusters is not set") as caught:
        load_config(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("B.tasks.max", "tasks.max or SOURCE->TARGET.tasks.max"),
        ("B.topics", "topics or SOURCE->TARGET.topics"),
        ("A->B.offset.flush.interval.ms", "TARGET.offset.flush.interval.ms"),
        ("exactly.once.source.support", "TARGET.exactly.once.source.support"),
        ("consumer.fetch.max.bytes", "CLUSTER.consumer.fetch.max.bytes"),
        ("source.consumer.fetch.max.bytes", "CLUSTER.consumer.fetch.max.bytes"),
        ("A.fetch.max.bytes", "CLUSTER.consumer.fetch.max.bytes"),
        ("A->B.bootstrap.servers", "bootstrap.servers or CLUSTER.bootstrap.servers"),
    ],
)
def test_a_setting_at_a_place_that_mirror_maker_does_not_read(name: str, place: str) -> None:
    """If this fails, such a setting gets an effect that it did not have, or an operator believes that it has one."""
    config = parse_config({**CLUSTERS, name: "1"}, "f")
    assert config.warnings == (f"f: {name} has no effect at this place, as in MirrorMaker 2: write {place}",)


def test_values_of_config_providers_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, passwords stand in the file, or a placeholder becomes the password."""
    monkeypatch.setenv("KCY_MIRROR", "SSL")
    given = {
        **CLUSTERS,
        "config.providers": "e",
        "config.providers.e.class": ENV,
        "A.security.protocol": "${e:KCY_MIRROR}",
    }
    config = parse_config(given, "f")
    assert config.properties["A.security.protocol"] == "SSL"
    assert config.warnings == ()
    with pytest.raises(ConfigError, match=r"A.client.id: \$\{e:KCY_NONE\} is not set"):
        parse_config({**given, "A.client.id": "${e:KCY_NONE}"}, "f")
    with pytest.raises(ConfigError, match=r"config.providers.e.class=my.Provider cannot run here"):
        parse_config({**given, "config.providers.e.class": "my.Provider"}, "f")


def test_aliases_with_names_of_prefixes() -> None:
    """Many files call their clusters `source` and `target`. If this fails, these do not start."""
    config = parse_config(
        {
            "clusters": "source,target",
            "source.bootstrap.servers": "a:1",
            "target.bootstrap.servers": "b:1",
            "source->target.enabled": "true",
            "source.consumer.fetch.min.bytes": "5",
            "target.exactly.once.source.support": "disabled",
        },
        "f",
    )
    assert config.warnings == ()
