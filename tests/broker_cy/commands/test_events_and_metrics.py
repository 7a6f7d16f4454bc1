"""`broker-cy events` and `broker-cy metrics`: the broker's own topics, from the shell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.launch.processes import Child
from tests.broker_cy.commands.conftest import COMMAND, ROOT, Cli, NewTopic
from tests.support.broker import Target, target_is_kafka
from tests.support.wait import until

TIMEOUT_S = 60.0

needs_broker_cy = pytest.mark.skipif(target_is_kafka(), reason="Apache Kafka has no such topics")


@pytest.fixture
def following(broker: Target, tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Starts `broker-cy` in the background."""
    children: list[Child] = []

    def start(*arguments: str) -> Child:
        child = Child([*COMMAND, *arguments, "--bootstrap", broker.bootstrap], tmp_path, "following", cwd=ROOT)
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@needs_broker_cy
def test_events(broker_cy: Cli, new_topic: NewTopic, following: Callable[..., Child], name: str) -> None:
    """If this fails, the shell does not show after an incident what changed, and which client changed it."""
    topic, other = new_topic(2), new_topic()
    about = ["events", "--topic", topic, "--json"]
    until(lambda: lines(broker_cy(*about).out), "the creation", TIMEOUT_S)
    follower = following(*about, "--follow", "--count", "3")
    follower.wait_for_output("topic_created", TIMEOUT_S)
    broker_cy("configs", "alter", "topic", topic, "--set", "retention.ms=1000000", "--yes")
    broker_cy("topics", "delete", topic, "--yes")
    assert follower.wait(TIMEOUT_S) == 0
    told = lines(follower.stdout())
    assert [each["type"] for each in told] == ["topic_created", "config_changed", "topic_deleted"]
    assert [each["offset"] for each in told] == sorted(each["offset"] for each in told)
    assert told[0]["by"]["client_id"] == "broker-cy-cli"
    # The same events, read later: the last ones, those since, those until, those of a type, those of two topics.
    assert lines(broker_cy(*about).out) == told
    assert lines(broker_cy(*about, "-n", "2").out) == told[1:]
    assert lines(broker_cy(*about, "--since", str(told[1]["time_ms"])).out) == told[1:]
    assert lines(broker_cy(*about, "--since", "-1h", "-n", "1").out) == told[2:]
    assert lines(broker_cy(*about, "--since", "-1h", "-c", "1").out) == told[:1]
    assert lines(broker_cy(*about, "--until", str(told[2]["time_ms"])).out) == told[:2]
    assert lines(broker_cy(*about, "--type", "topic_deleted", "--type", "rebalance").out) == told[2:]
    both = {each["topic"] for each in lines(broker_cy(*about, "--topic", other, "--type", "topic_created").out)}
    assert both == {topic, other}
    (line,) = broker_cy("events", "--topic", topic, "--type", "config_changed").out.splitlines()
    assert line.endswith(f"{topic}: topic: retention.ms: (unset) -> 1000000 (by broker-cy-cli 127.0.0.1)")
    # Commits are only shown if they are requested.
    broker_cy("groups", "reset", name, "--to-offset", "0", "--topic", f"{other}:0", "--yes")
    of_group = ["events", "--group", name]
    commits = [*of_group, "--type", "commits"]
    committed = until(lambda: broker_cy(*commits).out.splitlines(), "the commit", TIMEOUT_S)
    assert committed[-1].endswith(f"{name}: {other}-0: 0 of 0")
    assert broker_cy(*of_group).out == ""


@needs_broker_cy
def test_metrics(broker_cy: Cli, new_topic: NewTopic) -> None:
    """If this fails, only users of Prometheus can see what a broker is busy with."""
    topic = new_topic()
    broker_cy("produce", topic, stdin=b"x\n" * 70)
    only = ["metrics", "--topic", topic, "--api", "Produce", "--over", "1m"]
    # A broker creates the topic a second after its start.
    until(lambda: "__broker_metrics" in broker_cy("topics", "list", "--internal").out, "the topic of samples")

    def counted() -> Any:
        (told,) = broker_cy(*only, "--json").json
        return told if topic in told["topics"] else None

    told = until(counted, "the sample", TIMEOUT_S)
    assert told["topics"][topic]["in_records"] == 70
    assert list(told["topics"]) == [topic]
    assert list(told["apis"]) == ["Produce"]
    assert told["apis"]["Produce"]["requests"] >= 1
    assert told["apis"]["Produce"]["phases"]["total"]["count"] >= 1
    (everything,) = broker_cy("metrics", "--over", "1m", "--json").json
    assert everything["resident_bytes"] > 0
    assert everything["samples"] >= told["samples"]
    assert {"Produce", "Metadata"} <= set(everything["apis"])
    table = broker_cy(*only, "--clients").out
    assert table.splitlines()[0].startswith("broker 1: ")
    blocks = [[line.split() for line in block.splitlines()] for block in table.strip().split("\n\n")]
    assert blocks[1][0][:3] == ["API", "REQUESTS/S", "ERRORS/S"]
    assert blocks[1][1][0] == "Produce"
    assert {"handler", "disk", "send"} <= {row[1] for row in blocks[1][2:]}
    assert [row[0] for row in blocks[2]] == ["TOPIC", topic]
    assert blocks[3][0][:2] == ["CLIENT", "ID"]
    for each in ("loop lag", "connections", "partitions", "transactions", "__broker_metrics"):
        # The broker's own topic has no records in its first sample.
        until(lambda each=each: each in broker_cy("metrics").out, each)  # type: ignore[misc]
    watched = broker_cy("metrics", "--api", "metadata", "--watch", "10ms", "-c", "2", "--json").out
    assert [list(each[0]["apis"]) for each in lines(watched)] == [["Metadata"]] * 2


def test_wrong_options(broker_cy: Cli) -> None:
    """If this fails, a typing error is answered with nothing, or with everything."""
    assert (
        "--follow and --until cannot be used together" in broker_cy("events", "--follow", "--until", "now", code=2).err
    )
    assert "is not one of" in broker_cy("events", "--type", "earthquake", code=2).err
    assert "is not a time" in broker_cy("events", "--since", "yesterday", code=2).err
    assert "is not one of" in broker_cy("metrics", "--api", "Prodcue", code=2).err
    assert "at most 1h" in broker_cy("metrics", "--over", "2h", code=2).err
    assert "--count requires --watch" in broker_cy("metrics", "--count", "2", code=2).err


@pytest.mark.skipif(not target_is_kafka(), reason="tests/e2e/test_events.py has a broker-cy without such topics")
def test_a_cluster_without_events_and_samples(broker_cy: Cli) -> None:
    """If this fails, an operator of Apache Kafka gets a stack trace."""
    for command in ("events", "metrics"):
        assert "Apache Kafka does not" in broker_cy(command, code=1).err
