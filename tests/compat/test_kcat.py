"""Ordinary use of kcat, with the librdkafka of its Debian package (years old)."""

from __future__ import annotations

import json
import time

from broker_cy.launch.processes import run
from tests.support.broker import Target
from tests.support.clients import kcat
from tests.support.topics import create_topic


def test_produce_and_consume_lines(broker: Target, topic: str) -> None:
    """If this fails, the first command that users try does not work."""
    kcat(broker.bootstrap, "-P", "-t", topic, stdin=b"one\ntwo\nthree\n")
    assert kcat(broker.bootstrap, "-C", "-q", "-e", "-o", "beginning", "-t", topic) == b"one\ntwo\nthree\n"


def test_metadata(broker: Target, topic: str) -> None:
    """If this fails, kcat -L shows wrong brokers or partitions."""
    create_topic(broker.bootstrap, topic, 3)
    shown = json.loads(kcat(broker.bootstrap, "-L", "-J", "-t", topic))
    (node,) = shown["brokers"]
    assert node["name"] == broker.bootstrap
    assert shown["controllerid"] == node["id"]
    (found,) = shown["topics"]
    assert [(part["partition"], part["leader"], part["isrs"]) for part in found["partitions"]] == [
        (number, node["id"], [{"id": node["id"]}]) for number in range(3)
    ]


def test_parts_of_a_record(broker: Target, topic: str) -> None:
    """If this fails, key, headers, timestamp or partition of a record are lost."""
    create_topic(broker.bootstrap, topic, 4)
    before = int(time.time() * 1000)
    arguments = ["-t", topic, "-p", "2", "-k", "the key", "-H", "a=1", "-H", "b=2", "-H", "a=3"]
    kcat(broker.bootstrap, "-P", *arguments, stdin=b"the value")
    (line,) = kcat(broker.bootstrap, "-C", "-q", "-e", "-J", "-t", topic, "-o", "beginning").splitlines()
    shown = json.loads(line)
    assert (shown["topic"], shown["partition"], shown["offset"]) == (topic, 2, 0)
    assert (shown["key"], shown["payload"]) == ("the key", "the value")
    assert shown["headers"] == ["a", "1", "b", "2", "a", "3"]
    assert shown["tstype"] == "create"
    assert before <= shown["ts"] <= int(time.time() * 1000)


def test_offsets(broker: Target, topic: str) -> None:
    """If this fails, a part of a topic is read from the wrong place."""
    kcat(broker.bootstrap, "-P", "-t", topic, stdin=b"".join(b"%d\n" % number for number in range(10)))
    reader = ["-C", "-q", "-e", "-t", topic]
    assert kcat(broker.bootstrap, *reader, "-o", "7") == b"7\n8\n9\n"
    assert kcat(broker.bootstrap, *reader, "-o", "-2") == b"8\n9\n"
    assert kcat(broker.bootstrap, *reader, "-o", "beginning", "-c", "3") == b"0\n1\n2\n"
    assert kcat(broker.bootstrap, *reader, "-o", "s@1") == b"".join(b"%d\n" % number for number in range(10))


def test_query_by_time(broker: Target, topic: str) -> None:
    """If this fails, kcat -Q returns a wrong offset for a timestamp."""
    kcat(broker.bootstrap, "-P", "-t", topic, stdin=b"a\nb\n")
    future = int(time.time() * 1000) + 3_600_000
    answer = kcat(broker.bootstrap, "-Q", "-t", f"{topic}:0:1", "-t", f"{topic}:0:-1", "-t", f"{topic}:0:-2").decode()
    assert "offset 0" in answer
    assert "offset 2" in kcat(broker.bootstrap, "-Q", "-t", f"{topic}:0:-1").decode()
    assert "offset -1" in kcat(broker.bootstrap, "-Q", "-t", f"{topic}:0:{future}").decode()


def test_group(broker: Target, topic: str, group: str) -> None:
    """If this fails, kcat's group does not continue where it stopped."""
    kcat(broker.bootstrap, "-P", "-t", topic, stdin=b"".join(b"%d\n" % number for number in range(6)))
    settings = ["-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", "-q"]
    first = kcat(broker.bootstrap, *settings, "-c", "4", "-G", group, topic)
    assert first == b"0\n1\n2\n3\n"
    assert kcat(broker.bootstrap, *settings, "-c", "2", "-G", group, topic) == b"4\n5\n"


def test_old_client_keeps_its_compression(broker: Target, topic: str) -> None:
    """librdkafka before 2.6 sends uncompressed when Produce is advertised from version 3 on (KAFKA-18659)."""
    create_topic(broker.bootstrap, topic)
    data = b"x" * 200_000
    kcat(broker.bootstrap, "-P", "-t", topic, "-z", "zstd", stdin=data)
    assert kcat(broker.bootstrap, "-C", "-q", "-e", "-D", "", "-o", "beginning", "-t", topic) == data
    assert (broker.data_dir / f"{topic}-0" / f"{0:020}.log").stat().st_size < 20_000


def test_topic_that_is_not_there(broker: Target) -> None:
    """If this fails, a mistyped name makes the client wait forever, or creates a topic."""
    done = run(["kcat", "-b", broker.bootstrap, "-C", "-e", "-t", "no/such"], check=False, timeout_s=30)
    assert done.returncode != 0
    assert b"Invalid topic" in done.stderr or b"Broker: Invalid" in done.stderr or b"Unknown topic" in done.stderr


def test_idempotent(broker: Target, topic: str) -> None:
    """If this fails, an older idempotent producer is refused."""
    lines = b"".join(b"%d\n" % number for number in range(5000))
    kcat(
        broker.bootstrap, "-P", "-t", topic, "-X", "enable.idempotence=true", "-X", "batch.num.messages=50", stdin=lines
    )
    assert kcat(broker.bootstrap, "-C", "-q", "-e", "-o", "beginning", "-t", topic) == lines
