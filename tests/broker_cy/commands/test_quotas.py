"""`broker-cy quotas`, with this broker and with Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.commands.quotas import parse_assignment
from tests.broker_cy.commands.conftest import Cli, Said
from tests.support.both_brokers import BOTH, running
from tests.support.wait import until


@pytest.fixture(scope="module", params=BOTH)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "kafka":
        yield request.getfixturevalue("live_kafka").bootstrap
        return
    with running(request.param, tmp_path_factory.mktemp(request.param)) as target:
        yield target.bootstrap


@pytest.fixture
def quotas(bare: Cli, servers: str) -> Cli:
    def call(*arguments: str | Path, code: int = 0, stdin: bytes | None = None) -> Said:
        return bare("quotas", *arguments, "--bootstrap", servers, code=code, stdin=stdin)

    return call


def test_quotas_are_set_listed_and_removed(quotas: Cli) -> None:
    """If this fails, an operator cannot throttle a client, or cannot see which clients are throttled."""
    alice = ("--user", "alice")
    said = quotas("set", *alice, "producer_byte_rate=10M", "request_percentage=12.5", "--yes")
    assert said.out == "changed 2 quotas of user alice\n"
    assert [row[1:] for row in map(str.split, said.err.splitlines()[1:])] == [
        ["(none)", "10485760"],
        ["(none)", "12.5"],
    ]
    quotas("set", *alice, "--client-id", "default", "consumer_byte_rate=5", "--yes")
    quotas("set", "--ip", "10.0.0.1", "connection_creation_rate=5", "--yes", "--json")
    # A broker of Kafka answers a change before it has applied it.
    wanted = {
        ("ip 10.0.0.1", "connection_creation_rate", "5"),
        ("user alice", "producer_byte_rate", "10485760"),
        ("user alice", "request_percentage", "12.5"),
        ("user alice, client-id (default)", "consumer_byte_rate", "5"),
    }
    until(lambda: {tuple(cell.strip() for cell in row) for row in quotas("list").rows()} == wanted, "the new quotas")
    listed = quotas("list", *alice, "--client-id", "default", "--json").json
    assert listed == [{"entity": {"user": "alice", "client-id": None}, "values": {"consumer_byte_rate": 5.0}}]
    assert (
        "'produce_rate' is no quota: allowed are producer_byte_rate"
        in quotas("set", *alice, "produce_rate=1M", "--yes", code=2).err
    )
    assert "has no quota controller" in quotas("remove", *alice, "controller_mutation_rate", "--yes", code=2).err
    quotas("remove", *alice, "producer_byte_rate", "--yes")
    assert quotas("remove", *alice, "--client-id", "default", "--yes", "--json").json == {
        "entity": {"user": "alice", "client-id": None},
        "changes": {"consumer_byte_rate": None},
        "dry_run": False,
    }
    until(lambda: len(quotas("list", "--json").json) == 2, "the removed quotas")
    assert quotas("explain", *alice, "--client-id", "x", "--ip", "10.0.0.1").out.splitlines() == [
        "user alice with client id x, address 10.0.0.1: 2 of 5 quotas",
        "request_percentage 12.5%: set for user alice; counts for all clients of the user, on each broker",
        "connection_creation_rate 5/s: set for ip 10.0.0.1; counts for connections from this address, on each broker",
    ]
    assert quotas("explain", "--user", "bob").out == "no quota applies to user bob without a client id\n"
    (shown,) = quotas("explain", *alice, "--json").json
    assert (shown["key"], shown["value"], shown["entity"]) == ("request_percentage", 12.5, {"user": "alice"})
    assert "enter a user" in quotas("explain", code=2).err
    quotas("remove", "--ip", "10.0.0.1", "--yes")
    left = [{"entity": {"user": "alice"}, "values": {"request_percentage": 12.5}}]
    until(lambda: quotas("list", "--json").json == left, "one quota")
    quotas("remove", *alice, "--yes")
    until(lambda: quotas("list", "--json").json == [], "no quota")


def test_what_is_refused_changes_nothing(quotas: Cli) -> None:
    """If this fails, a typing error sets a quota, or leads to a confirmation prompt."""
    assert (
        "Invalid configuration key" in quotas("set", "--user", "a", "connection_creation_rate=5", "--yes", code=1).err
    )
    assert "specify --user" in quotas("set", "producer_byte_rate=5", "--yes", code=2).err
    assert "not a number" in quotas("set", "--user", "a", "request_percentage=x", "--yes", code=2).err
    assert "should" in quotas("set", "--user", "a", "--ip", "10.0.0.1", "request_percentage=1", "--yes", code=1).err
    quotas("set", "--user", "a", "request_percentage=1", "--dry-run")
    assert "Nothing was changed" in quotas("set", "--user", "a", "request_percentage=1", code=4).err
    assert "has no quota" in quotas("remove", "--user", "a", "--yes", code=2).err
    assert quotas("list", "--json").json == []


def test_values_have_the_units_of_the_other_commands() -> None:
    """If this fails, 10M is ten bytes."""
    assert parse_assignment("producer_byte_rate=10M") == ("producer_byte_rate", 10 * 1024 * 1024)
    assert parse_assignment("request_percentage=0.5") == ("request_percentage", 0.5)
    with pytest.raises(ValueError, match="is not a size"):
        parse_assignment("consumer_byte_rate=fast")
