"""Stops and crashes of the broker: afterwards every acknowledged record is stored."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench.launch.nodes import broker_command
from broker_cy.client.program import EXIT_FAILED, EXIT_USAGE
from broker_cy.launch.processes import Child
from tests.support import needs
from tests.support.broker import BrokerProcess, Target, target_is_kafka
from tests.support.confluent import TIMEOUT_S, close_consumer, new_consumer, read_all, send, take
from tests.support.kafka_dump import dump_log_segments
from tests.support.raw_wire import (
    Connection,
    RawBatch,
    Reader,
    frame,
    parse_produced,
    produce,
    produce_body,
    receive_frame,
    request,
)
from tests.support.topics import create_topic
from tests.support.wait import until

MakeBroker = Callable[..., Target]
ours_only = pytest.mark.skipif(target_is_kafka(), reason="about our own command line and log")
SEGMENT = f"{0:020}.log"


class TestKill:
    """kill -9."""

    def test_every_acknowledged_record_is_there(self, make_broker: MakeBroker, topic: str) -> None:
        """If this fails, acknowledged records are lost."""
        broker = make_broker()
        create_topic(broker.bootstrap, topic, 3)
        acknowledged: list[bytes] = []
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 100,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "queue.buffering.max.messages": 5000,
            }
        )

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value())

        sent = 0
        for _ in range(3):
            target = len(acknowledged) + 3000
            while len(acknowledged) < target:  # so that the kill happens during producing
                try:
                    producer.produce(topic, b"%d" % sent, str(sent), on_delivery=delivered)
                    sent += 1
                except BufferError:
                    pass
                producer.poll(0)
            broker.kill()
            broker.restart()
        assert producer.flush(2 * TIMEOUT_S) == 0
        there = [value for partition in range(3) for value in read_all(broker.bootstrap, topic, partition)]
        missing = set(acknowledged) - set(there)
        assert not missing, f"{len(missing)} acknowledged records are gone"
        assert len(there) == len(set(there)), "records came twice from an idempotent producer"

    def test_cluster_state_is_there(self, make_broker: MakeBroker, topic: str, group: str) -> None:
        """If this fails, topics, settings, ids or committed offsets are lost in a crash."""
        broker = make_broker()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        create_topic(broker.bootstrap, topic, 3, {"retention.ms": "7777777"})
        create_topic(broker.bootstrap, topic + "-deleted")
        admin.delete_topics([topic + "-deleted"])[topic + "-deleted"].result(TIMEOUT_S)
        send(broker, topic, [b"a", b"b"], 2)
        consumer = new_consumer(broker.bootstrap, group)
        at = TopicPartition(topic, 2, 1, metadata="note")
        consumer.commit(offsets=[at], asynchronous=False)
        close_consumer(consumer)
        setting = ConfigEntry("log.retention.ms", "8888888", incremental_operation=AlterConfigOpType.SET)
        default = ConfigResource(ResourceType.BROKER, _broker_id(broker), incremental_configs=[setting])
        admin.incremental_alter_configs([default])[default].result(TIMEOUT_S)
        before = _state(broker, topic)
        for end in (broker.kill, broker.stop):
            end()
            broker.restart()
            assert _state(broker, topic) == before
            consumer = new_consumer(broker.bootstrap, group)
            committed = consumer.committed([TopicPartition(topic, 2)], TIMEOUT_S)
            assert [(each.offset, each.metadata) for each in committed] == [(1, "note")]
            close_consumer(consumer)
            assert read_all(broker.bootstrap, topic, 2) == [b"a", b"b"]

    def test_indexes_are_rebuilt(self, make_broker: MakeBroker, topic: str) -> None:
        """If this fails, a missing or damaged index keeps records from being found."""
        broker = make_broker()
        create_topic(broker.bootstrap, topic, 2)
        for partition in (0, 1):
            for start in range(0, 200, 10):
                send(broker, topic, [b"%d" % n + b"x" * 500 for n in range(start, start + 10)], partition)
        broker.kill()
        (broker.data_dir / f"{topic}-0" / SEGMENT.replace(".log", ".index")).unlink()
        (broker.data_dir / f"{topic}-0" / SEGMENT.replace(".log", ".timeindex")).unlink()
        (broker.data_dir / f"{topic}-1" / SEGMENT.replace(".log", ".index")).write_bytes(b"\xff" * 37)
        (broker.data_dir / f"{topic}-1" / SEGMENT.replace(".log", ".timeindex")).write_bytes(b"\xff" * 50)
        broker.restart()
        consumer = new_consumer(broker.bootstrap, "reader")
        for partition in (0, 1):
            for offset in (0, 137, 199):
                consumer.assign([TopicPartition(topic, partition, offset)])
                assert take(consumer, 1)[0].offset() == offset
            consumer.assign([])
            (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, 1)], TIMEOUT_S)
            assert found.offset == 0
        close_consumer(consumer)
        broker.stop()
        logs = [path for partition in (0, 1) for path in (broker.data_dir / f"{topic}-{partition}").glob("*.*index")]
        dump_log_segments(logs, "--verify-index-only")


def _state(broker: Target, topic: str) -> dict[str, Any]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    resource = ConfigResource(ResourceType.TOPIC, topic)
    defaults = ConfigResource(ResourceType.BROKER, _broker_id(broker))
    broker_settings = admin.describe_configs([defaults])[defaults].result(TIMEOUT_S)
    return {
        "topics": sorted(name for name in topics if not name.startswith("__")),
        "partitions": len(topics[topic].partitions),
        "retention": admin.describe_configs([resource])[resource].result(TIMEOUT_S)["retention.ms"].value,
        "broker setting": broker_settings["log.retention.ms"].value,
        "cluster": admin.describe_cluster().result(TIMEOUT_S).cluster_id,
    }


def _broker_id(broker: Target) -> str:
    return str(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=TIMEOUT_S).controller_id)


class TestStop:
    """SIGTERM."""

    def test_an_orderly_stop(self, make_broker: MakeBroker, topic: str) -> None:
        """If this fails, a stop takes long, loses data, or makes the next start check all logs."""
        broker = make_broker()
        create_topic(broker.bootstrap, topic)
        send(broker, topic, [b"%d" % n for n in range(1000)])
        assert not (broker.data_dir / ".kafka_cleanshutdown").exists()
        assert broker.stop(60) == 0
        assert (broker.data_dir / ".kafka_cleanshutdown").exists()
        assert "Traceback" not in broker.stderr()
        broker.restart()
        assert not (broker.data_dir / ".kafka_cleanshutdown").exists()
        assert read_all(broker.bootstrap, topic) == [b"%d" % n for n in range(1000)]

    def test_a_stop_with_clients_at_work(self, make_broker: MakeBroker, topic: str) -> None:
        """If this fails, waiting consumers delay the stop, or it loses acknowledged records."""
        broker = make_broker()
        create_topic(broker.bootstrap, topic)
        acknowledged: list[bytes] = []
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 1, "batch.num.messages": 50}
        )
        consumer = new_consumer(broker.bootstrap, "waits", fetch_wait_max_ms=25_000, fetch_min_bytes=1_000_000)
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        consumer.poll(0.1)

        def acknowledge(error: KafkaError | None, message: Message) -> None:
            value = message.value()
            if error is None and value is not None:
                acknowledged.append(value)

        number = 0
        while len(acknowledged) < 2000:
            try:
                producer.produce(
                    topic,
                    b"%d" % number,
                    on_delivery=acknowledge,
                )
                number += 1
            except BufferError:
                pass
            producer.poll(0)
        assert broker.stop(60) == 0
        producer.poll(0.2)
        told = set(acknowledged)
        broker.restart()
        producer.flush(TIMEOUT_S)
        close_consumer(consumer)
        assert told <= set(read_all(broker.bootstrap, topic))

    def test_requests_that_were_read_are_answered(self, make_broker: MakeBroker, topic: str) -> None:
        """If this fails, a stop drops requests that it has already accepted."""
        broker = make_broker()
        create_topic(broker.bootstrap, topic)
        with Connection((broker.host, broker.port)) as connection:
            produce(connection, {topic: {0: RawBatch().encode()}})
            body = produce_body({topic: {0: RawBatch().encode()}})
            connection.sock.sendall(b"".join(frame(request(0, 8, body, number)) for number in range(200)))
            written = int(self._answered(connection))  # the broker handles them
            stopper = threading.Thread(target=broker.stop)
            stopper.start()
            try:
                while True:
                    written += self._answered(connection)
            except (EOFError, ConnectionError):
                pass
            stopper.join()
        broker.restart()
        count = len(read_all(broker.bootstrap, topic))
        assert written + 1 <= count <= 201

    @staticmethod
    def _answered(connection: Connection) -> bool:
        """Return whether the next response acknowledges a batch. Raises EOFError at the end of the connection."""
        reader = Reader(receive_frame(connection.sock))
        reader.i32()
        return all(answer.error == 0 for answer in parse_produced(reader, 8).values())

    @ours_only
    def test_sigint_stops_too(self, make_broker: MakeBroker) -> None:
        """If this fails, Ctrl-C on `make run` leaves a stack trace or an unclean log."""
        broker = make_broker()
        os.kill(broker.pid, signal.SIGINT)
        until(lambda: not _running(broker.pid), "the end")
        assert (broker.data_dir / ".kafka_cleanshutdown").exists()
        assert "Traceback" not in broker.stderr()


def _running(pid: int) -> bool:
    """Return whether the process still runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@ours_only
class TestRefusalToStart:
    """A refused start prints one line with the remedy, and exits with code 1, or 2 for a wrong setting."""

    def refused(self, target: Target, *patterns: str, code: int = EXIT_FAILED) -> str:
        assert isinstance(target, BrokerProcess)
        child = target.launch()
        assert child.wait(60) == code
        lines = [line for line in child.stderr().splitlines() if line.strip()]
        assert len(lines) == 1, child.stderr()
        assert "Traceback" not in child.stderr()
        assert child.stdout() == ""
        for pattern in patterns:
            assert re.search(pattern, lines[0], re.IGNORECASE), lines[0]
        return lines[0]

    def test_port_in_use(self, make_broker: MakeBroker) -> None:
        """If this fails, the second broker on a machine ends with a stack trace."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            target = make_broker(start=False)
            target.port = taken.getsockname()[1]
            self.refused(target, str(target.port), "in use")

    def test_locked_directory(self, make_broker: MakeBroker) -> None:
        """If this fails, two brokers write into one directory."""
        first = make_broker()
        second = make_broker(data_dir=first.data_dir, start=False)
        self.refused(second, re.escape(str(first.data_dir)), "lock|another|use")
        send(first, "still-works", [b"v"])

    def test_directory_that_cannot_be_written(self, make_broker: MakeBroker, tmp_path: Path) -> None:
        """If this fails, a wrong owner shows up as a stack trace."""
        # A file in its place: not even the superuser can create a directory there.
        blocked = tmp_path / "a-file"
        blocked.write_text("")
        self.refused(make_broker(data_dir=blocked / "data", start=False), re.escape(str(blocked)))

    @needs.no_root
    def test_directory_of_somebody_else(self, make_broker: MakeBroker, tmp_path: Path) -> None:
        """If this fails, a wrong owner shows up as a stack trace."""
        locked = tmp_path / "read-only"
        locked.mkdir()
        locked.chmod(stat.S_IRUSR | stat.S_IXUSR)
        self.refused(make_broker(data_dir=locked, start=False), re.escape(str(locked)), "writ|permission")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("log.retention.min", "1"),
            ("log.segment.bytes", "many"),
            ("log.segment.bytes", "-1"),
            ("num.partitions", "0"),
            ("log.message.timestamp.type", "Yesterday"),
            ("compression.type", "rar"),
        ],
    )
    def test_bad_setting(self, make_broker: MakeBroker, name: str, value: str) -> None:
        """If this fails, a mistyped setting is ignored, or the message does not name it."""
        line = self.refused(make_broker({name: value}, start=False), re.escape(name), code=EXIT_USAGE)
        if name != "log.retention.min":
            assert value in line

    def test_directory_of_another_node(self, make_broker: MakeBroker) -> None:
        """If this fails, a broker takes the data of another."""
        first = make_broker()
        first.stop()
        properties = first.data_dir / "meta.properties"
        properties.write_text(re.sub(r"node\.id=\d+", "node.id=77", properties.read_text()))
        self.refused(make_broker(data_dir=first.data_dir, start=False), "77|node.id")


@ours_only
class TestCommand:
    """The command line itself."""

    def test_ready_line(self, make_broker: MakeBroker) -> None:
        """If this fails, a script cannot tell when the broker is ready, or where."""
        broker = make_broker()
        (line,) = broker.stdout().splitlines()
        assert broker.bootstrap in line
        assert re.search(r"\d+(\.\d+)? ?m?s\b", line), "the line does not say how long the start took"

    def test_json(self, tmp_path: Path) -> None:
        """If this fails, a program that starts a broker has to parse texts for people."""
        argv = [*broker_command(), "start", "--json", "--hints", "--data-dir", str(tmp_path / "data")]
        child = Child([*argv, "--listener", "127.0.0.1:0"], tmp_path, "json", cwd=Path(__file__).parents[2])
        try:
            child.wait_for_output('"addresses"', 30)
            ready = json.loads(child.stdout())
        finally:
            child.kill()
        assert {*ready} == {"version", "addresses", "seconds", "metrics", "console"}
        (address,) = ready["addresses"]
        assert ready["console"].endswith(f"broker-tui --bootstrap {address}")
        for wrong in (["--shards", "many"], ["--set", "node.id=x"], ["--config", "no-such-file"]):
            done = subprocess.run([*argv, *wrong], cwd=Path(__file__).parents[2], capture_output=True, check=False)
            assert done.returncode == EXIT_USAGE
            error = json.loads(done.stderr.splitlines()[-1])["error"]
            assert wrong[1].removeprefix("node.id=") in error["reason"]
            assert error["failure"] == "invalid"

    def test_hints(self, tmp_path: Path) -> None:
        """If this fails, a user who runs `make run` for the first time gets no hint how to use it."""
        argv = [
            *broker_command(),
            "start",
            "--hints",
            "--listener",
            "127.0.0.1:0",
            "--data-dir",
            str(tmp_path / "data"),
        ]
        child = Child(argv, tmp_path, "hints", cwd=Path(__file__).parents[2])
        try:
            child.wait_for_output("--bootstrap", 30)
            ready, hint = child.stdout().splitlines()
            (address,) = re.findall(r"127\.0\.0\.1:\d+", ready)
            assert hint.endswith(f"broker-tui --bootstrap {address}")
        finally:
            child.kill()

    def test_config_file(self, make_broker: MakeBroker, tmp_path: Path) -> None:
        """If this fails, an existing server.properties of a Kafka broker does not work."""
        data = tmp_path / "kraft-logs"
        config = tmp_path / "server.properties"
        config.write_text(
            "# The file that Kafka ships, with free ports.\n"
            "process.roles=broker,controller\nnode.id=1\n"
            "controller.quorum.bootstrap.servers=localhost:9093\n"
            "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
            "inter.broker.listener.name=PLAINTEXT\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            "num.network.threads=3\nnum.io.threads=8\n"
            "socket.send.buffer.bytes=102400\nsocket.receive.buffer.bytes=102400\nsocket.request.max.bytes=104857600\n"
            f"log.dirs={data}\nnum.partitions=3\nnum.recovery.threads.per.data.dir=2\n"
            "offsets.topic.replication.factor=1\nshare.coordinator.state.topic.replication.factor=1\n"
            "share.coordinator.state.topic.min.isr=1\ntransaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\nlog.retention.hours=168\nlog.segment.bytes=1073741824\n"
            "log.retention.check.interval.ms=300000\n"
        )
        child = Child(
            [*broker_command(), "start", "--config", config], tmp_path, "from-config", cwd=Path(__file__).parents[2]
        )
        try:
            until(lambda: child.returncode is not None or "\n" in child.stdout(), "the ready line", 30)
            found = re.search(r"\b127\.0\.0\.1:(\d+)", child.stdout())
            assert found, child.stderr()
            admin = AdminClient({"bootstrap.servers": found.group()})
            topic = "made-with-defaults"
            Producer({"bootstrap.servers": found.group()}).list_topics(topic, TIMEOUT_S)
            until(
                lambda: len(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == 3, "3 partitions"
            )
            assert (data / f"{topic}-2").is_dir()
        finally:
            child.kill()


def test_a_copy_of_a_running_broker(make_broker: MakeBroker, topic: str, tmp_path: Path) -> None:
    """If this fails, a broker cannot start from a copy of a running broker's directory, such as a disk snapshot."""
    broker = make_broker()
    create_topic(broker.bootstrap, topic)
    send(broker, topic, [b"%d" % n for n in range(500)])
    copy = tmp_path / "copy"
    broker_dir = broker.data_dir
    shutil.copytree(broker_dir, copy)
    broker.kill()
    other = make_broker(data_dir=copy)
    assert read_all(other.bootstrap, topic) == [b"%d" % n for n in range(500)]
