"""DescribeConfigs, the Alter APIs and ListConfigResources answer as Apache Kafka 4.3.1 did.

The fixture has the responses of a Kafka 4.3.1 broker, started with its `properties`, to a sequence of requests; our
handlers get the same requests in the same order, so that later responses depend on earlier changes in the same way. An
admin tool that works against Kafka must see the same names, values, sources, types, flags, error codes and messages
here; for each difference, `deviation` says why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_cy.config import ConfigError, validate_topic_settings
from broker_cy.config.definitions import OWN, OWN_TOPIC
from broker_cy.config.startup import BUILT_IN
from broker_cy.core.properties import parse_properties
from broker_cy.metadata.features import METADATA_VERSION, MV_LATEST
from broker_cy.wire import messages
from tests.broker_cy.handlers.config_broker import ConfigBroker

FIXTURE = Path(__file__).parents[2] / "fixtures" / "describe_configs_4.3.1.json"
BROKER, LOGGER, GROUP = 4, 8, 32
DEFAULT = 5

Outcome = tuple[int, str | None]


def deviation(resource: dict[str, Any], kafka: Outcome) -> Outcome:
    """Our response, if it differs from Kafka's."""
    ops = {config.get("config_operation", 0) for config in resource["configs"]}
    if ops - {0, 1, 2, 3}:
        # Kafka fails with a NullPointerException for some resources; for others it answers like this.
        return 42, f"Unknown operations type {max(ops)}"
    return kafka


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FIXTURE.read_text())
    return found


def request_of(step: dict[str, Any]) -> Any:
    cls: Any = getattr(messages, f"{step['api']}Request")
    structs = {"resources": ("DescribeConfigsResource", "AlterConfigsResource"), "configs": ("AlterableConfig",)}

    def convert(name: str, value: Any) -> Any:
        if name not in structs:
            return value
        struct = next(getattr(cls, candidate) for candidate in structs[name] if hasattr(cls, candidate))
        return [struct(**{key: convert(key, item) for key, item in entry.items()}) for entry in value]

    return cls(**{name: convert(name, value) for name, value in step["request"].items()})


def kafka_row(row: list[Any]) -> list[Any]:
    """Return a recorded setting with our defaults where they differ."""
    name, value, source, read_only, sensitive, config_type, synonyms = row
    # Kafka has no default for these: its file has the only value.
    required = ("process.roles", "node.id", "controller.listener.names")
    if name in BUILT_IN and source == DEFAULT:
        value = BUILT_IN[name]
    synonyms = [
        [key, BUILT_IN.get(key, text) if at == DEFAULT and key not in required else text, at]
        for key, text, at in synonyms
    ]
    return [name, value, source, read_only, sensitive, config_type, synonyms]


def our_row(config: Any, version: int) -> list[Any]:
    return [
        config.name,
        config.value,
        config.config_source,
        config.read_only,
        config.is_sensitive,
        config.config_type if version >= 3 else None,
        [[synonym.name, synonym.value, synonym.source] for synonym in config.synonyms],
    ]


def check_describe(step: dict[str, Any], answer: Any) -> None:
    assert len(answer.results) == len(step["response"]["results"])
    for kafka, ours in zip(step["response"]["results"], answer.results, strict=True):
        where = (ours.resource_type, ours.resource_name)
        assert where == (kafka["resource_type"], kafka["resource_name"])
        assert (ours.error_code, ours.error_message) == (kafka["error_code"], kafka["error_message"]), where
        rows = {config.name: our_row(config, step["version"]) for config in ours.configs}
        expected = {row[0]: kafka_row(row) for row in kafka["configs"]}
        if kafka.get("partial"):
            rows = {name: row for name, row in rows.items() if row[2] != DEFAULT}
        assert rows.keys() - OWN.keys() - OWN_TOPIC == expected.keys(), where
        for name, row in expected.items():
            assert rows[name] == row, where


def check_alter(step: dict[str, Any], answer: Any) -> None:
    asked = step["request"]["resources"]
    assert [(r.resource_type, r.resource_name) for r in answer.responses] == [
        (r["resource_type"], r["resource_name"]) for r in asked
    ]
    if step["response"] is None:
        # Kafka 4.3.1 fails with an internal exception if AlterConfigs names a resource twice, and never answers.
        assert [r.error_code for r in answer.responses] == [42, 42]
        return
    expected: dict[tuple[int, str], Outcome] = {
        (r["resource_type"], r["resource_name"]): (r["error_code"], r["error_message"])
        for r in step["response"]["responses"]
    }
    for resource, ours in zip(asked, answer.responses, strict=True):
        kafka = expected[ours.resource_type, ours.resource_name]
        code, text = deviation(resource, kafka)
        # Refusals of settings of groups name both values after Kafka's text.
        said = ours.error_message
        if resource["resource_type"] == GROUP and said is not None and text is not None:
            said = said if said == text else said.partition(": ")[0]
        assert (ours.error_code, said) == (code, text), resource


def check_create(step: dict[str, Any], broker: ConfigBroker) -> None:
    if step["error_code"] == 0:
        broker.create_topic(step["topic"], step["configs"])
        return
    with pytest.raises(ConfigError) as caught:
        validate_topic_settings(step["configs"], broker.config)
    assert str(caught.value) == step["error_message"]


def test_as_recorded(recorded: dict[str, Any]) -> None:
    broker = ConfigBroker(parse_properties(recorded["properties"]))
    # Kafka 4.3 formats a directory with this setting for all brokers (KIP-966).
    broker.set_config(BROKER, "", "min.insync.replicas", "1")
    broker.set_feature("eligible.leader.replicas.version", 1)
    broker.set_feature(METADATA_VERSION, MV_LATEST)
    for number, step in enumerate(recorded["steps"]):
        if step["api"] == "CreateTopics":
            check_create(step, broker)
            continue
        answer = broker.call(request_of(step), step["version"])
        try:
            if step["api"] == "DescribeConfigs":
                check_describe(step, answer)
            elif step["api"] == "ListConfigResources":
                ours = sorted((r.resource_type, r.resource_name) for r in answer.config_resources)
                kafka = step["response"]["config_resources"]
                assert answer.error_code == step["response"]["error_code"]
                assert ours == [(r.get("resource_type", 16), r["resource_name"]) for r in kafka]
            else:
                check_alter(step, answer)
        except AssertionError as error:
            raise AssertionError(f"step {number}: {json.dumps(step['request'])[:300]}: {error}") from error
