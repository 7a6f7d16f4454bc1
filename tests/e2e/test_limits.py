"""Limits of a real broker: connections, idle time, request size, descriptors. Only a client that exceeds one is
disconnected.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bench.launch.nodes import broker_command
from broker_cy.client.program import EXIT_FAILED, EXIT_USAGE
from broker_cy.config.definitions import GROUP
from broker_cy.config.group import CLIENT_METRICS_TYPES
from broker_cy.core.logs import value_text
from broker_cy.metadata.image import RESOURCE_CLIENT_METRICS, RESOURCE_GROUP
from tests.support import needs
from tests.support.acked import batch, read_partition
from tests.support.broker import BrokerProcess, Target, target_is_kafka
from tests.support.forking import run
from tests.support.raw_wire import (
    METADATA,
    PRODUCE,
    TAGS,
    Connection,
    array,
    closes,
    compact_array,
    compact_string,
    frame,
    i8,
    i32,
    produce,
    request,
)
from tests.support.topics import create_topic
from tests.support.wait import until

pytestmark = pytest.mark.skipif(target_is_kafka(), reason="about our own broker's process")

TIMEOUT_S = 60.0
INCREMENTAL_ALTER_CONFIGS = 44
ASK = frame(request(METADATA, 1, array([])))
MakeBroker = Callable[..., Target]


def descriptors(broker: Target) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def connect(broker: Target, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection((broker.host, broker.port), TIMEOUT_S, source_address=(source, 0))


def served(sock: socket.socket) -> bool:
    """Return whether a request is answered; False if the connection is closed."""
    try:
        sock.sendall(ASK)
        return sock.recv(4) != b""
    except ConnectionError:
        return False


def serves_another(broker: Target, source: str = "127.0.0.1") -> bool:
    with connect(broker, source) as sock:
        return served(sock)


def works(broker: Target) -> None:
    """Return whether another client can produce."""
    with Connection((broker.host, broker.port)) as connection:
        assert produce(connection, {"t": {0: batch(b"v")}})["t", 0].error == 0


def set_dynamically(broker: Target, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (done,) = admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S).values()
    done.result(TIMEOUT_S)


def test_idle_connections_are_closed(make_broker: MakeBroker) -> None:
    """If this fails, connections of ended clients are kept forever, or those of working clients are closed."""
    # Much longer than the test may be delayed between two requests of the active connection.
    broker = make_broker({"connections.max.idle.ms": "5000"})
    with connect(broker) as idle, connect(broker) as half, connect(broker) as busy:
        assert served(idle)
        # A request that never ends does not keep a connection alive.
        half.sendall(ASK[:7])
        gone = set()

        def both_gone() -> bool:
            assert served(busy), "a connection at work was closed"
            for sock in (idle, half):
                sock.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    # A response can still be read before the end.
                    while sock.recv(4096):
                        pass
                    gone.add(sock)
            busy.recv(4096)
            return len(gone) == 2

        until(both_gone, "the idle connections are closed")


def test_limits_by_address(make_broker: MakeBroker) -> None:
    """If this fails, one client opens so many connections that others get none."""
    settings = {"max.connections.per.ip": "2", "max.connections.per.ip.overrides": "127.0.0.2:4"}
    broker = make_broker(settings)
    with contextlib.ExitStack() as held:

        def count(source: str) -> int:
            return sum(served(held.enter_context(connect(broker, source))) for _ in range(8))

        assert count("127.0.0.3") == 2
        assert count("127.0.0.2") == 4
        assert count("127.0.0.4") == 2
    until(lambda: serves_another(broker, "127.0.0.3"), "places are given back")
    # From another address, because the first one reaches its limit again at times.
    set_dynamically(broker, "max.connections.per.ip.overrides", "127.0.0.3:1,127.0.0.2:3")

    def counts() -> list[int]:
        found = []
        for source in ("127.0.0.3", "127.0.0.2"):
            with contextlib.ExitStack() as held:
                found.append(sum(served(held.enter_context(connect(broker, source))) for _ in range(6)))
        return found

    until(lambda: counts() == [1, 3], "the new limits hold")


def test_request_size(make_broker: MakeBroker) -> None:
    """If this fails, socket.request.max.bytes differs from the file's value, or disconnects other clients."""
    broker = make_broker({"socket.request.max.bytes": "100000"})
    create_topic(broker.bootstrap, "t")
    with connect(broker) as sock:
        sock.sendall(i32(100_001))
        assert closes(sock)
    with connect(broker) as sock:
        # As long as allowed: it is read completely before it turns out to be invalid.
        sock.sendall(i32(100_000) + request(PRODUCE, 8, b"") + bytes(99_000))
        sock.sendall(bytes(200_000))
        assert closes(sock)
    works(broker)
    assert "socket.request.max.bytes" in broker.stderr()


def test_two_thousand_connections_leave_nothing(make_broker: MakeBroker) -> None:
    """If this fails, after a day of connects and disconnects the broker is out of descriptors or memory."""
    broker = make_broker({"socket.listen.backlog.size": "1000"})
    create_topic(broker.bootstrap, "t")
    works(broker)
    before = descriptors(broker)
    for round_ in range(50):
        with contextlib.ExitStack() as held:
            for number in range(40):
                sock = held.enter_context(connect(broker))
                kind = (number + round_) % 5
                if kind == 1:
                    sock.sendall(ASK)
                elif kind == 2:
                    sock.sendall(ASK[:-3])
                elif kind == 3:
                    # Reset, with a response outstanding.
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    sock.sendall(ASK * 3)
                elif kind == 4:
                    sock.sendall(i32(-1))
    until(lambda: descriptors(broker) <= before + 2, f"descriptors are {before} again")
    works(broker)
    assert "traceback" not in broker.stderr()


@pytest.fixture
def poor_broker(make_broker: MakeBroker) -> BrokerProcess:
    """A broker with a limit of 300 file descriptors."""
    needs.require(needs.prlimit)
    broker = make_broker(start=False)
    assert isinstance(broker, BrokerProcess)
    broker.wrapper = ["prlimit", "--nofile=300:300", "--"]
    return broker.start()


def test_more_connections_than_descriptors(poor_broker: BrokerProcess) -> None:
    """If this fails, too many clients prevent the logs from being written, or stop the broker."""
    broker = poor_broker
    create_topic(broker.bootstrap, "t", 20)
    with Connection((broker.host, broker.port)) as first, contextlib.ExitStack() as held:
        # A request now, so that the broker has accepted the connection before the others come.
        assert produce(first, {"t": {0: batch(b"v")}})["t", 0].error == 0
        crowd = []
        for _ in range(400):
            crowd.append(held.enter_context(socket.socket()))
            # Most wait in the kernel's queue, or are not even in it.
            crowd[-1].setblocking(False)
            crowd[-1].connect_ex((broker.host, broker.port))
        until(lambda: "accepting nothing until a connection ends" in broker.stderr(), "the broker is full")
        # A connected client is served, even for logs that are not open yet.
        for partition in range(20):
            assert produce(first, {"t": {partition: batch(b"v")}})["t", partition].error == 0
        assert descriptors(broker) < 300
        for sock in crowd:
            sock.close()
    until(lambda: serves_another(broker), "there is room again")
    assert len(read_partition((broker.host, broker.port), "t", 19)) == 1
    assert "traceback" not in broker.stderr()
    assert "Too many open files" not in broker.stderr()


def test_more_partitions_than_descriptors(poor_broker: BrokerProcess) -> None:
    """If this fails, a broker with many partitions runs out of descriptors."""
    broker = poor_broker
    create_topic(broker.bootstrap, "t", 400)
    with Connection((broker.host, broker.port)) as connection:
        for _ in range(2):
            answers = produce(connection, {"t": dict.fromkeys(range(400), batch(b"v"))})
            assert {answer.error for answer in answers.values()} == {0}
    for partition in range(0, 400, 40):
        assert len(read_partition((broker.host, broker.port), "t", partition)) == 2
    assert descriptors(broker) < 300
    broker.kill()
    broker.restart()
    for partition in range(0, 400, 40):
        assert len(read_partition((broker.host, broker.port), "t", partition)) == 2
    assert broker.stop() == 0
    assert "level=error" not in broker.stderr()
    assert "traceback" not in broker.stderr()


class TestRefusals:
    """Starts that must be refused, besides those of tests/compat/test_stop_and_crash.py."""

    @staticmethod
    def refused(tmp_path: Path, *arguments: str, code: int = EXIT_USAGE) -> str:
        done = run([*broker_command(), "start", *arguments], tmp_path / "outputs", TIMEOUT_S, cwd=tmp_path)
        assert done.returncode == code, done
        assert done.stdout == b""
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith("broker-cy: ")
        return line

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--listener", "9092"], "HOST:PORT"),
            (["--listener", "127.0.0.1:http"], "HOST:PORT"),
            (["--listener", "127.0.0.1:70000"], "70000"),
            (["--listener", "192.0.2.1:0"], "192.0.2.1"),
            (["--listener", "no-such-host.invalid:0"], "no-such-host.invalid"),
            (["--config", "no-such-file.properties"], "no-such-file.properties"),
            (["--config", "."], "directory"),
            (["--set", "num.partitions"], "name=value"),
            (["--set", "listeners=PLAINTEXT://:0,PLAINTEXT://127.0.0.1:0"], "different name"),
            (["--set", "listeners=INNER://:0"], "INNER"),
            (["--set", "listeners=SSL://:0", "--set", "inter.broker.listener.name=SSL"], "SSL"),
            (["--set", "advertised.listeners=OUTER://a:1"], "OUTER"),
            (["--set", "advertised.listeners=PLAINTEXT://0.0.0.0:1"], "0.0.0.0"),
            (["--set", "authorizer.class.name=x.Y"], "authorizer.class.name"),
        ],
    )
    def test_arguments(self, tmp_path: Path, arguments: list[str], said: str) -> None:
        """If this fails, a mistyped argument shows as a stack trace, or is ignored."""
        # An address may be one of this machine later.
        code = EXIT_FAILED if said in ("192.0.2.1", "no-such-host.invalid") else EXIT_USAGE
        assert said in self.refused(tmp_path, "--data-dir", str(tmp_path / "data"), *arguments, code=code)
        assert not (tmp_path / "data" / "meta.properties").exists(), "it was formatted all the same"

    def test_a_config_file_with_an_error(self, tmp_path: Path) -> None:
        """If this fails, the line does not say where to look."""
        (tmp_path / "bad.properties").write_text("num.partitions=3\nlog.dirs=\\u12\n")
        line = self.refused(tmp_path, "--config", "bad.properties")
        assert "bad.properties" in line
        assert "line 2" in line

    def test_an_unknown_setting(self, tmp_path: Path) -> None:
        """If this fails, the message does not say which line of the file is wrong, and how to correct it."""
        (tmp_path / "bad.properties").write_text("# mine\nnum.\\\n  partitons=3\nnum.io.threads=8\n")
        to_do = "unknown setting num.partitons: remove it or correct its name (did you mean num.partitions?)"
        assert self.refused(tmp_path, "--config", "bad.properties") == f"broker-cy: bad.properties: line 2: {to_do}"
        typed = self.refused(tmp_path, "--config", "bad.properties", "--set", "num.partitons=4")
        assert typed == f"broker-cy: --set num.partitons: {to_do}"
        strict = self.refused(tmp_path, "--set", "qqqq.zzzz=secret", "--set", "brokercy.config.strict=true")
        to_do = "unknown setting qqqq.zzzz has no effect: remove it or correct its name"
        assert strict == f"broker-cy: --set qqqq.zzzz: {to_do}"


@needs.ipv6
def test_ipv6(make_broker: MakeBroker, tmp_path: Path) -> None:
    """If this fails, a listener on an IPv6 address cannot be used, or the ready line cannot be pasted into a client."""
    broker = make_broker(start=False)
    assert isinstance(broker, BrokerProcess)
    broker.host = "[::1]"
    child = broker.launch()
    until(lambda: child.returncode is not None or "\n" in child.stdout(), "the ready line")
    found = re.search(r"\[::1\]:(\d+)", child.stdout())
    assert found, child.stderr()
    metadata = AdminClient({"bootstrap.servers": found.group()}).list_topics(timeout=TIMEOUT_S)
    assert [(str(each.host), each.port) for each in metadata.brokers.values()] == [("::1", int(found.group(1)))]


def test_settings_without_effect_are_said(make_broker: MakeBroker) -> None:
    """If this fails, a setting without effect is accepted without a warning."""
    broker = make_broker({"num.io.threads": "3", "num.network.threads": "2"})
    assert 'event="settings have no effect yet" count=2 settings="num.io.threads ' in broker.stderr()
    said = 'event="setting has no effect yet" '
    set_dynamically(broker, "background.threads", "12")
    until(lambda: f"{said}setting=background.threads value=12\n" in broker.stderr(), "the dynamic setting is reported")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert admin.list_topics(timeout=TIMEOUT_S).brokers
    create_topic(broker.bootstrap, "t", config={"preallocate": "true"})
    wanted = f"{said}topic=t setting=preallocate value=true\n"
    until(lambda: wanted in broker.stderr(), "and that of a topic")


def alter_configs(broker: Target, resource_type: int, name: str, settings: dict[str, str]) -> None:
    """With a raw request, because confluent-kafka does not know these resource types."""
    entries = [compact_string(key) + i8(0) + compact_string(value) + TAGS for key, value in settings.items()]
    resource = i8(resource_type) + compact_string(name) + compact_array(entries) + TAGS
    with Connection((broker.host, broker.port)) as connection:
        body = compact_array([resource]) + i8(0) + TAGS
        answer = connection.ask(INCREMENTAL_ALTER_CONFIGS, 1, body, flexible=True, response_tags=True)
    assert (answer.i32(), answer.uvarint(), answer.i16()) == (0, 2, 0), answer.data


def test_settings_of_client_metrics_without_effect_are_said(make_broker: MakeBroker) -> None:
    """If this fails, a setting of client metrics, which have no effect yet, is stored without a warning."""
    broker = make_broker({})
    metrics = {"metrics": "org.apache.kafka.", "interval.ms": "1000", "match": "client_id=a"}
    assert metrics.keys() == CLIENT_METRICS_TYPES.keys()
    # Each setting of a group has an effect.
    alter_configs(broker, RESOURCE_GROUP, "g", {name: str(setting.default_text) for name, setting in GROUP.items()})
    alter_configs(broker, RESOURCE_CLIENT_METRICS, "m", metrics)
    said = 'event="setting has no effect yet" '
    wanted = [f"{said}client_metrics=m setting={name} value={value_text(text)}\n" for name, text in metrics.items()]
    until(lambda: all(line in broker.stderr() for line in wanted), "every setting is reported when it is changed")
    alter_configs(broker, RESOURCE_CLIENT_METRICS, "m", {"interval.ms": "2000"})
    until(lambda: "setting=interval.ms value=2000\n" in broker.stderr(), "and so is its next value")
    assert broker.stderr().count("client_metrics=m ") == len(metrics) + 1, "what did not change is said again"

    broker.stop()
    broker.restart()
    wanted = [line.replace("ms value=1000", "ms value=2000") for line in wanted]
    until(lambda: all(line in broker.stderr() for line in wanted), "every setting is reported at the start")
    assert broker.stderr().count("client_metrics=m ") == len(metrics)
    assert "group=g " not in broker.stderr()
