"""Effects of the config handlers besides their answers: records in the metadata log, new values in effect, changed
loggers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from broker_cy.config.definitions import OWN
from broker_cy.controller import topic_configs
from broker_cy.controller.rules import topic_setting
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.wire import messages
from tests.broker_cy.handlers.config_broker import ConfigBroker
from tests.support.logs import fields_of

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND = 0, 1, 2
Incremental = messages.IncrementalAlterConfigsRequest
Legacy = messages.AlterConfigsRequest
Describe = messages.DescribeConfigsRequest


@pytest.fixture
def broker() -> ConfigBroker:
    found = ConfigBroker({"log.segment.bytes": "2097152"})
    found.create_topic("t", {"retention.ms": "5"})
    return found


def change(
    broker: ConfigBroker,
    resource_type: int,
    name: str,
    *configs: tuple[str, int, str | None],
    validate_only: bool = False,
    version: int = 1,
) -> tuple[int, str | None]:
    resource = Incremental.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[Incremental.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in configs],
    )
    answer = broker.call(Incremental(resources=[resource], validate_only=validate_only), version)
    return answer.responses[0].error_code, answer.responses[0].error_message


def described(broker: ConfigBroker, resource_type: int, name: str, key: str) -> Any:
    resource = Describe.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=[key]
    )
    answer = broker.call(Describe(resources=[resource], include_synonyms=True), 4)
    return answer.results[0].configs[0]


def written(broker: ConfigBroker) -> list[tuple[int, str, str, str | None]]:
    records = broker.controller.records
    return [(r.resource_type, r.resource_name, r.name, r.value) for r in records]


@pytest.mark.parametrize("version", [0, 1])
def test_records(broker: ConfigBroker, version: int) -> None:
    """Changes that are not in the metadata log are lost at a restart."""
    assert change(broker, TOPIC, "t", ("segment.ms", SET, "9"), ("retention.ms", DELETE, None), version=version)[0] == 0
    assert sorted(written(broker), key=str) == sorted(
        [(TOPIC, "t", "retention.ms", None), (TOPIC, "t", "segment.ms", "9")], key=str
    )


def test_nothing_is_written_for_nothing(broker: ConfigBroker) -> None:
    """A tool that sets the same value every minute must not grow the log; for brokers Kafka still writes it."""
    change(broker, TOPIC, "t", ("retention.ms", SET, "5"))
    change(broker, TOPIC, "t", ("segment.ms", SET, "9"), validate_only=True)
    change(broker, TOPIC, "t", ("segment.ms", SET, "x"))
    change(broker, TOPIC, "t", ("absent", DELETE, None))
    assert written(broker) == []
    for _ in range(2):
        change(broker, BROKER, "1", ("log.segment.bytes", SET, "3145728"))
    assert written(broker) == [(BROKER, "1", "log.segment.bytes", "3145728")] * 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_alter_configs_replaces(broker: ConfigBroker, version: int) -> None:
    """AlterConfigs sets the complete state of a resource: settings that it leaves out return to their defaults."""
    resource = Legacy.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=[Legacy.AlterableConfig(name="segment.ms", value="9")]
    )
    answer = broker.call(Legacy(resources=[resource]), version)
    assert answer.responses[0].error_code == 0
    assert broker.image.configs.topic("t") == {"segment.ms": "9"}


def test_a_change_is_in_force(broker: ConfigBroker) -> None:
    """A dynamic setting that only takes effect at a restart is accepted and ignored."""
    called: list[frozenset[str]] = []
    broker.config.on_change(called.append, "max.connections")
    change(broker, BROKER, "", ("max.connections", SET, "7"))
    assert broker.config["max.connections"] == 7
    assert called == [frozenset({"max.connections"})]
    change(broker, BROKER, "1", ("log.segment.bytes", SET, "3145728"))
    assert described(broker, TOPIC, "t", "segment.bytes").value == "3145728"
    change(broker, BROKER, "1", ("log.segment.bytes", DELETE, None))
    assert broker.config["log.segment.bytes"] == 2097152
    assert len(called) == 1


def test_inert_dynamic_setting_is_said_and_refused_ones_are_refused(
    broker: ConfigBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert change(broker, BROKER, "", ("num.io.threads", SET, "9")) == (0, None)
    assert {"setting": "num.io.threads", "value": "9"} in [getattr(r, "fields", None) for r in caplog.records]
    code, message = change(broker, BROKER, "1", ("listener.name.plaintext.ssl.trustmanager.algorithm", SET, "x"))
    assert code == ErrorCode.INVALID_REQUEST
    assert message is not None
    assert "chooses cryptography of Java, and this broker uses OpenSSL: remove it" in message
    code, message = change(broker, BROKER, "1", ("listener.name.plaintext.ssl.keystore.password", SET, "secret"))
    assert code == ErrorCode.INVALID_REQUEST
    assert message is not None
    assert "cannot be changed while the broker runs" in message
    assert "secret" not in message
    code, message = change(broker, BROKER, "1", ("listeners", SET, "PLAINTEXT://127.0.0.1:9099"))
    assert (code, message) == (
        ErrorCode.INVALID_REQUEST,
        "Listeners cannot be changed while the broker runs: change the file and restart it.",
    )


def test_partial_failure(broker: ConfigBroker) -> None:
    """One invalid resource must not undo, or hide, the others."""
    resources = [
        Incremental.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[Incremental.AlterableConfig(name="segment.ms", config_operation=SET, value="9")],
        )
        for name in ("nosuch", "t")
    ]
    answer = broker.call(Incremental(resources=resources), 1)
    assert [r.error_code for r in answer.responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert broker.image.configs.topic("t")["segment.ms"] == "9"


def test_the_disk_is_full(broker: ConfigBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that could not be written is an error for its resource, not a broken connection."""

    async def submit(operation: object) -> Any:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")

    monkeypatch.setattr(broker.controller, "submit", submit)
    assert change(broker, TOPIC, "t", ("segment.ms", SET, "9")) == (ErrorCode.KAFKA_STORAGE_ERROR, "disk full")


def test_stored_nonsense_does_not_stop_the_broker(broker: ConfigBroker, caplog: pytest.LogCaptureFixture) -> None:
    """A metadata log written by another version may hold settings this broker cannot use."""
    with caplog.at_level(logging.ERROR):
        broker.set_config(BROKER, "", "log.segment.bytes", "nonsense")
        broker.set_config(BROKER, "", "message.max.bytes", "77")
    assert broker.config["log.segment.bytes"] == 2097152
    assert broker.config["message.max.bytes"] == 77
    assert "log.segment.bytes" in [
        fields_of(r)["setting"] for r in caplog.records if r.msg == "dynamic setting ignored"
    ]


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("broker_cy.test_config_handlers")
    yield found
    found.setLevel(logging.NOTSET)


def test_log_levels(broker: ConfigBroker, logger: logging.Logger) -> None:
    """An operator who investigates a fault raises the level of one logger without a restart."""
    assert change(broker, LOGGER, "1", (logger.name, SET, "TRACE"), validate_only=True) == (0, None)
    assert logger.level == logging.NOTSET
    assert change(broker, LOGGER, "1", (logger.name, SET, "DEBUG")) == (0, None)
    assert logger.isEnabledFor(logging.DEBUG)
    assert described(broker, LOGGER, "1", logger.name).value == "DEBUG"
    change(broker, LOGGER, "1", (logger.name, SET, "FATAL"))
    assert described(broker, LOGGER, "1", logger.name).value == "FATAL"
    assert change(broker, LOGGER, "1", (logger.name, DELETE, None)) == (0, None)
    assert logger.level == logging.NOTSET
    assert written(broker) == []


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_secrets_and_documentation(version: int) -> None:
    """A password in the file must never leave the broker, for any client."""
    broker = ConfigBroker({})
    resource = Describe.DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
    request = Describe(resources=[resource], include_synonyms=True, include_documentation=version >= 3)
    found = {config.name: config for config in broker.call(request, version).results[0].configs}
    assert len(found.keys() - OWN.keys()) == 340
    for name, config in found.items():
        if "password" in name:
            assert config.is_sensitive, name
            assert config.value is None
    assert bool(found["num.partitions"].documentation) == (version >= 3)


def test_unknown_resource_type(broker: ConfigBroker) -> None:
    resource = Describe.DescribeConfigsResource(resource_type=7, resource_name="x", configuration_keys=None)
    result = broker.call(Describe(resources=[resource]), 4).results[0]
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Unexpected resource type 7 for resource x"


def names(values: Iterable[Any]) -> list[str]:
    return sorted(value.resource_name for value in values)


def test_list_config_resources(broker: ConfigBroker) -> None:
    """kafka-configs.sh uses it to list the entities that can be described."""
    broker.set_config(32, "g", "share.isolation.level", "read_committed")
    broker.set_config(16, "m", "interval.ms", "1000")
    request = messages.ListConfigResourcesRequest
    assert names(broker.call(request(resource_types=[]), 1).config_resources) == ["1", "1", "g", "m", "t"]
    assert names(broker.call(request(resource_types=[TOPIC, 32]), 1).config_resources) == ["g", "t"]
    assert names(broker.call(request(), 0).config_resources) == ["m"]


def test_a_variable_is_stored_as_it_is_and_resolved_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a secret is in the metadata log and in every admin tool, or controllers elect by other settings
    than brokers.
    """
    monkeypatch.setenv("KCY_ISR", "2")
    monkeypatch.setenv("KCY_SIZE", "3145728")
    monkeypatch.delenv("KCY_NOT_SET", raising=False)
    broker = ConfigBroker(
        {
            "config.providers": "env",
            "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            "log.retention.bytes": "${env:KCY_SIZE}",
        }
    )
    broker.create_topic("t", {})
    assert change(broker, BROKER, "", ("min.insync.replicas", SET, "${env:KCY_ISR}")) == (0, None)
    assert change(broker, BROKER, "1", ("log.segment.bytes", SET, "${env:KCY_SIZE}")) == (0, None)
    assert written(broker)[-1][2:] == ("log.segment.bytes", "${env:KCY_SIZE}")
    assert broker.config["log.segment.bytes"] == 3145728
    assert topic_setting(broker.image, broker.config, "t", "min.insync.replicas") == 2
    for resource, name, key in (
        (BROKER, "1", "log.segment.bytes"),
        (BROKER, "", "min.insync.replicas"),
        (TOPIC, "t", "segment.bytes"),
        (TOPIC, "t", "retention.bytes"),
    ):
        entry = described(broker, resource, name, key)
        assert (entry.is_sensitive, entry.value, entry.synonyms[0].value) == (True, None, None), key
    # As CreateTopics answers.
    created = {each.name: each for each in topic_configs.effective({"retention.bytes": "7"}, broker.config)}
    assert (created["segment.bytes"].is_sensitive, created["segment.bytes"].value) == (True, None)
    assert (created["retention.bytes"].is_sensitive, created["retention.bytes"].value) == (False, "7")
    code, message = change(broker, BROKER, "1", ("message.max.bytes", SET, "${env:KCY_NOT_SET}"))
    assert (code, message) == (
        ErrorCode.INVALID_REQUEST,
        "message.max.bytes: ${env:KCY_NOT_SET} is not set: export KCY_NOT_SET, or write the value",
    )
