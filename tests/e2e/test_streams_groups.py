"""An application of Kafka Streams with `group.protocol=streams` (KIP-1071), and Kafka's own tool for such groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from bench.launch import kafka_dist
from bench.steady_clients.programs import LineProgram
from tests.support import kafka_streams, kafka_tools, needs
from tests.support.broker import BrokerProcess
from tests.support.confluent import close_consumer, new_consumer
from tests.support.topics import create_topic
from tests.support.wait import until

pytestmark = [needs.java, pytest.mark.full]
WAIT_S = 90.0
PARTITIONS = 4
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ONE_STANDBY = [
    "--alter",
    "--entity-type",
    "groups",
    "--entity-name",
    "words",
    "--add-config",
    "streams.num.standby.replicas=1",
]
# The tasks of a subtopology in the list of members, as "0:[1,2];".
TASKS = re.compile(r"(\d+):\[([\d,]*)\]")


class WordCount(LineProgram):
    """The program of streams_clients/WordCount.java."""

    def __init__(self, bootstrap: str, directory: Path, name: str, guarantee: str) -> None:
        source = Path(__file__).with_name("streams_clients") / "WordCount.java"
        command = kafka_dist.program_command(source, kafka_streams.streams_libs())
        words = [bootstrap, "lines", "out", str(directory / f"state-{name}"), f"processing.guarantee={guarantee}"]
        super().__init__([*command, *words], directory, name)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {
        "group.streams.initial.rebalance.delay.ms": "500",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    target = BrokerProcess(tmp_path / "broker", settings)
    target.start()
    yield target
    target.close()


def counts(bootstrap: str) -> dict[str, int]:
    """The newest count of each word."""
    consumer = new_consumer(bootstrap, "reader", enable_partition_eof=True, isolation_level="read_committed")
    consumer.assign([TopicPartition("out", 0, 0)])
    found: dict[str, int] = {}

    def read() -> bool:
        is_over = False
        for message in consumer.consume(1000, 0.2):
            if message.error() is not None:
                is_over = True
            else:
                found[(message.key() or b"").decode()] = int(message.value() or b"0")
        return is_over

    until(read, "the end of out", WAIT_S)
    close_consumer(consumer)
    return found


def write(bootstrap: str, lines: int) -> None:
    """Write lines with one word each; there are ten words."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(lines):
        producer.produce("lines", f"w{number % 10} both".encode(), partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def tool(bootstrap: str, *words: str) -> str:
    done = kafka_tools.run_tool(TOOL, "--bootstrap-server", bootstrap, *words)
    return done.stdout.decode()


def tasks_of(bootstrap: str, role: str = "ACTIVE") -> dict[str, set[tuple[str, int]]]:
    """The tasks of each process, as the tool shows them."""
    found: dict[str, set[tuple[str, int]]] = {}
    for line in tool(bootstrap, "--describe", "--group", "words", "--members", "--verbose").splitlines():
        if line.startswith("words "):
            process = line.split()[6]
            # "ACTIVE: 0:[1]; STANDBY: 1:[2]; TARGET-ACTIVE: ..."
            current = line.partition(" TARGET-")[0]
            shown = re.split(r"[A-Z]", current.partition(f"{role}: ")[2], maxsplit=1)[0]
            tasks = {(part, int(each)) for part, numbers in TASKS.findall(shown) for each in numbers.split(",") if each}
            found.setdefault(process, set()).update(tasks)
    return found


def _shared(tasks: dict[str, set[tuple[str, int]]]) -> tuple[int, ...]:
    """The number of tasks of each process. No task is active in two."""
    assert sum(map(len, tasks.values())) == len(set[tuple[str, int]]().union(*tasks.values())), tasks
    return tuple(map(len, tasks.values()))


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_words_are_counted_by_instances_that_come_and_go(broker: BrokerProcess, tmp_path: Path, guarantee: str) -> None:
    """If this fails, an application with `group.protocol=streams` does not work, or it loses or repeats records."""
    servers = broker.bootstrap
    create_topic(servers, "lines", PARTITIONS)
    create_topic(servers, "out", 1)
    programs = [WordCount(servers, tmp_path, "first", guarantee)]
    total = 0

    def more(lines: int) -> None:
        nonlocal total
        write(servers, lines)
        total += lines
        wanted = {"both": total, **{f"w{number}": total // 10 for number in range(10)}}
        until(lambda: counts(servers) == wanted, f"the counts of {total} lines", WAIT_S, 0.5)

    try:
        until(lambda: "running" in programs[0].lines, "a running application", WAIT_S)
        more(40)
        assert "words" in tool(servers, "--list")
        state = tool(servers, "--describe", "--group", "words", "--state")
        assert "Stable" in state, state
        offsets = tool(servers, "--describe", "--group", "words")
        assert "words-by-word-repartition" in offsets, offsets
        programs.append(WordCount(servers, tmp_path, "second", guarantee))
        until(lambda: "running" in programs[1].lines, "another running instance", WAIT_S)
        more(40)
        until(lambda: _shared(tasks_of(servers)) == (4, 4), "tasks of both instances", WAIT_S, 1.0)
        # Each instance copies the state of the other one's tasks, and the second one takes it over.
        kafka_tools.run_tool(CONFIGS, "--bootstrap-server", servers, *ONE_STANDBY)
        until(lambda: sum(map(len, tasks_of(servers, "STANDBY").values())) == PARTITIONS, "copies", WAIT_S, 1.0)
        programs[0].finish()
        more(40)
        programs[1].finish()
        assert not [line for each in programs for line in each.lines if line.startswith("error")]
    finally:
        for each in programs:
            each.close()
    assert "Empty" in tool(servers, "--describe", "--group", "words", "--state")
    tool(servers, "--delete", "--group", "words")
    assert "words" not in tool(servers, "--list").split()
