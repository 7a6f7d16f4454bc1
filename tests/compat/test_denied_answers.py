"""A client without ACLs gets the answers of Apache Kafka 4.3.1 with the same ACLs, for all APIs and versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.broker.registry import registrations
from broker_cy.handlers import load_handlers
from broker_cy.wire.frame import ApiKey
from tests.compat.denied_requests import REQUESTS
from tests.compat.denied_world import SETTINGS, STANDARD, World
from tests.compat.differential.plain import plain
from tests.support import kafka_tools, needs, recorded
from tests.support.both_brokers import BOTH
from tests.support.broker import BrokerProcess

load_handlers()

# These APIs do not depend on ACLs.
WITHOUT_RIGHTS = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
}


def answers(world: World) -> dict[str, Any]:
    """Ask everything as the guest."""
    found = {}
    for label, (api, build) in REQUESTS.items():
        entry = registrations()[api]
        for version in range(entry.min_version, entry.max_version + 1):
            request = build(version, world)
            if request is None:
                continue
            answer = world.guest.ask(request, version)
            found[f"{label} v{version}"] = simplified(plain(answer, world.names))
    return found


# Values that depend on the machine, or on a broker's own description of a request.
IGNORED = {"port", "cluster_id", "controller_id"}
# The same, for lists whose order has no meaning.
SORTED = {
    "results_by_topic_v3_and_below",
    "topics",
    "responses",
    "results",
    "groups",
    "transaction_states",
    "coordinators",
    "topic_responses",
}


def simplified(value: Any, field: str = "") -> Any:
    if isinstance(value, dict):
        found = {key: simplified(each, key) for key, each in value.items() if key not in IGNORED}
        # "Request Request(processor=1, connectionId=...) needs ALTER permission."
        for key in ("error_message",):
            if isinstance(found.get(key), str) and "needs" in found[key] and "permission" in found[key]:
                found[key] = "needs permission"
        return found
    if isinstance(value, list):
        items = [simplified(each) for each in value]
        return sorted(items, key=str) if field in SORTED else items
    return value


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    target = BrokerProcess(tmp_path_factory.mktemp("ours"), SETTINGS)
    try:
        world = World(target.start())
        world.prepare()
        yield world
        world.close()
    finally:
        target.close()


@pytest.mark.full
@needs.kafka
def test_kafka_gives_the_recorded_answers(tmp_path: Path) -> None:
    """If this fails, our responses are compared with responses that Kafka does not give."""
    kafka = BOTH["kafka"](tmp_path, SETTINGS)
    try:
        world = World(kafka.start())
        world.prepare()
        recorded.check("denied", answers(world))
        world.close()
    finally:
        kafka.close()


def test_the_same_answers_as_kafka(ours: World) -> None:
    """If this fails, a client without permission gets data that it must not see, or an unexpected error."""
    theirs = recorded.of_kafka("denied")
    mine = recorded.as_recorded(answers(ours))
    different = [
        f"{label}\n  Kafka {theirs[label]}\n  we    {mine[label]}" for label in mine if theirs[label] != mine[label]
    ]
    assert not different, "\n" + "\n".join(different)


def test_every_api_is_asked() -> None:
    """If this fails, an API is served whose access control was never compared with Kafka's."""
    assert {int(api) for api, _ in REQUESTS.values()} | WITHOUT_RIGHTS == set(registrations())
    assert {key for key, entry in registrations().items() if entry.requires == ""} == WITHOUT_RIGHTS


@needs.kafka
def test_kafkas_own_tool(tmp_path: Path) -> None:
    """If this fails, kafka-acls.sh does not work with this broker as it does with Kafka."""
    settings = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
    target = BrokerProcess(tmp_path, settings)

    def tool(*arguments: str) -> list[str]:
        class_name = "org.apache.kafka.tools.AclCommand"
        done = kafka_tools.run_tool(class_name, "--bootstrap-server", target.bootstrap, *arguments)
        return [line.strip() for line in done.stdout.decode().splitlines() if line.strip()]

    def rules(lines: list[str]) -> set[str]:
        return {line for line in lines if line.startswith("(")}

    try:
        target.start()
        allow = "(principal=User:{}, host={}, operation={}, permissionType={})"
        tool("--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders", "--transactional-id", "tx")
        tool("--add", "--deny-principal", "User:bob", "--deny-host", "192.0.2.1", "--operation", "Read", "--topic", "*")
        prefixed = ("--topic", "team-", "--resource-pattern-type", "prefixed")
        tool("--add", "--allow-principal", "User:carol", "--operation", "All", *prefixed)
        listed = tool("--list")
        assert "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=team-, patternType=PREFIXED)`:" in (
            listed
        )
        assert rules(listed) == {
            allow.format("alice", "*", operation, "ALLOW") for operation in ("WRITE", "DESCRIBE", "CREATE")
        } | {allow.format("bob", "192.0.2.1", "READ", "DENY"), allow.format("carol", "*", "ALL", "ALLOW")}
        matching = tool("--list", "--topic", "team-a", "--resource-pattern-type", "match")
        assert rules(matching) == {
            allow.format("bob", "192.0.2.1", "READ", "DENY"),
            allow.format("carol", "*", "ALL", "ALLOW"),
        }
        assert rules(tool("--list", "--principal", "User:carol")) == {allow.format("carol", "*", "ALL", "ALLOW")}
        tool("--remove", "--force", *prefixed)
        assert allow.format("carol", "*", "ALL", "ALLOW") not in rules(tool("--list"))
        target.stop()
        target.restart()
        assert len(rules(tool("--list"))) == 4
    finally:
        target.close()
