"""The table of settings, and what becomes of each setting."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.config_def.scoped import Support
from broker_streams import settings
from broker_streams.application import load
from broker_streams.hosts.settings import HostSettings
from broker_streams.kernel.settings import TaskSettings
from broker_streams.serdes.lists import ListSerde
from broker_streams.settings import Scope, table

ROOT = Path(__file__).resolve().parents[2]
APP = {"application.id": "app"}


@pytest.mark.parametrize(
    ("config", "warning"),
    [
        ({"num.stream.threads": 4}, "num.stream.threads has no effect: one process is one thread"),
        ({"consumer.max.poll.records": 4}, "consumer.max.poll.records has no effect"),
        ({"global.consumer.auto.offset.reset": "latest"}, "global.consumer.auto.offset.reset has no effect"),
        ({"comit.interval.ms": 4}, "comit.interval.ms is no known setting, and has no effect; is commit.interval.ms"),
        (
            {"consumer.client.rak": 4},
            "consumer.client.rak is no known setting, and has no effect; is consumer.client",
        ),
        ({"my.own": 4}, "my.own is no known setting, and has no effect"),
        ({"max.retries": 4}, "max.retries has no effect: hosts ask again until the registry answers"),
    ],
)
def test_a_setting_without_an_effect_is_named(config: dict[str, Any], warning: str) -> None:
    """If this fails, a setting is accepted and ignored silently."""
    (found,) = settings.read(APP | config).warnings
    assert found.startswith(warning)


def test_settings_with_an_effect_need_no_warning() -> None:
    """If this fails, users are warned of what works."""
    given = {
        "bootstrap.servers": ["a:1", "b:2"],
        "commit.interval.ms": 20,
        "consumer.auto.offset.reset": "latest",
        "topic.retention.ms": 5,
        "client.tag.zone": "a",
        "sasl.mechanism": "PLAIN",
        "schema.registry.ssl.truststore.location": "/t",
        "auto.register.schemas": False,
        "default.value.serde": None,
    }
    assert settings.read(APP | given).warnings == ()


def test_a_warning_is_given_once(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, each task of an application repeats the warnings."""
    found = settings.read(APP | {"only.in.this.test": 1})
    with caplog.at_level(logging.WARNING, "broker_streams"):
        settings.warn(found)
        settings.warn(found)
    assert [each.message for each in caplog.records] == ["only.in.this.test is no known setting, and has no effect"]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"processor.wrapper.class": "Mine"}, "processor.wrapper.class would wrap all processors"),
        ({"producer.sasl.mechanism": "PLAIN"}, "producer.sasl.mechanism: all clients .* write sasl.mechanism"),
        ({"ssl.engine.factory.class": "Mine"}, "ssl.engine.factory.class protects connections"),
        ({"group.protocol": "classic"}, "classic for configuration group.protocol: .*STREAMS"),
        ({"dsl.store.format": "HEADERS"}, "HEADERS for configuration dsl.store.format: .*DEFAULT"),
        ({"main.consumer.max.poll.interval.ms": "0"}, "0 for configuration main.consumer.max.poll.interval.ms"),
        ({"specific.avro.reader": True}, "true for configuration specific.avro.reader"),
        ({"group.instance.id": "one"}, "group.instance.id names a static member"),
        ({"value.schema.id.serializer": "Mine"}, "value.schema.id.serializer is not built"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(config: dict[str, Any], text: str) -> None:
    """If this fails, an application runs without what its user asked for."""
    with pytest.raises(ValueError, match=text):
        settings.read(APP | config)


def test_the_more_exact_prefix_wins() -> None:
    """If this fails, an application reads with other settings than in Kafka Streams."""
    given = {"main.consumer.client.rack": "c", "consumer.client.rack": "b", "client.rack": "a"}
    assert settings.read(APP | given).get("client.rack", Scope.CONSUMER) == "c"
    del given["main.consumer.client.rack"]
    assert HostSettings.of(APP | given).rack == "b"


def test_older_names_count_where_the_newer_one_is_not_set() -> None:
    """If this fails, files of older applications lose settings."""
    assert TaskSettings.of(APP | {"cache.max.bytes.buffering": 7}).cache_bytes == 7
    assert TaskSettings.of(APP | {"cache.max.bytes.buffering": 7, "statestore.cache.max.bytes": 8}).cache_bytes == 8
    assert TaskSettings.of(APP | {"default.dsl.store": "in_memory"}).in_memory_stores


def test_lists_are_default_serdes() -> None:
    """If this fails, Kafka's settings of lists have no effect."""
    kafka = "org.apache.kafka.common.serialization.Serdes$"
    given = {"default.value.serde": f"{kafka}ListSerde", "default.list.value.serde.inner": f"{kafka}LongSerde"}
    found = TaskSettings.of(APP | given).value_serde
    assert isinstance(found, ListSerde)
    assert found.name == "LIST(LONG)"
    del given["default.list.value.serde.inner"]
    with pytest.raises(ValueError, match=r"needs default.list.value.serde.inner"):
        TaskSettings.of(APP | given)


def test_isolation_counts_without_exactly_once() -> None:
    """If this fails, an application processes records of aborted transactions that its user did not want."""
    alo = APP | {"processing.guarantee": "at_least_once"}
    assert not HostSettings.of(alo).reads_committed
    assert HostSettings.of(alo | {"consumer.isolation.level": "read_committed"}).reads_committed
    assert HostSettings.of(APP).reads_committed


def test_providers_give_values(tmp_path: Path) -> None:
    """If this fails, passwords must stand in the application."""
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("tag=east\n")
    app = tmp_path / "app.py"
    app.write_text(
        "from broker_streams import StreamsBuilder\n"
        "builder = StreamsBuilder()\n"
        "builder.stream('a').to('b')\n"
        "config = {'application.id': 'app', 'config.providers': 'file',\n"
        "          'config.providers.file.class': 'org.apache.kafka.common.config.provider.FileConfigProvider',\n"
        f"          'client.tag.zone': '${{file:{secrets}:tag}}'}}\n"
    )
    config = load(app).config
    assert HostSettings.of(config).client_tags == {"zone": "east"}


def test_each_row_can_be_read() -> None:
    """If this fails, a default of the table is not allowed, or a row says nothing about why it has no effect."""
    for (scope, name), each in table().items():
        if each.support is Support.EFFECTIVE:
            assert each.documentation, name
            if each.default_text and not each.is_sensitive:
                assert each.read(name, each.default_text) == each.default, (scope, name)
        if each.support is Support.REFUSED:
            assert each.documentation, name


def test_the_page_is_up_to_date() -> None:
    """If this fails, docs/streams-settings.md lacks a setting: run python tools/streams_doc.py."""
    command = [sys.executable, str(ROOT / "tools" / "streams_doc.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
