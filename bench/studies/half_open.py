"""The effect of connections that never log in on other connections, and their memory: a broker with a SASL listener.

    python -m bench.studies.half_open [connections]

Three kinds, each compared with a run without any (A B A B): silent ones; those that have sent a part of a request; and
those that send one byte at a time. Prints the latencies of a producing client with one request at a time, and the
broker's memory per connection.
"""

import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import psutil

from bench.launch.nodes import BrokerCy, broker_command, free_ports
from broker_cy.wire import codec, messages
from broker_cy.wire.record import Record
from broker_cy.wire.records import encode_batch

CONNECTIONS = 9_000
REQUESTS = 3_000
ROUNDS = 2
PART_BYTES = 3_000
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'


class Node(BrokerCy):
    """`port` is that of the listener without a login, `login_port` that of the other."""

    login_port = 0

    def choose_ports(self) -> None:
        self.port, self.login_port = free_ports(2)

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "listeners": f"OPEN://{self.host}:{self.port},LOGIN://{self.host}:{self.login_port}",
            "listener.security.protocol.map": "OPEN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "OPEN",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": PLAIN,
            "brokercy.authentication.timeout.ms": "600000",
        }
        (self.directory / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))

    def command(self) -> list[str | Path]:
        config = self.directory / "server.properties"
        return [*broker_command(), "start", "--data-dir", self.data_dir, "--config", config]


class Producer:
    def __init__(self, address: tuple[str, int]) -> None:
        self.sock = socket.create_connection(address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        batch = encode_batch([Record(timestamp=0, key=None, value=b"x" * 100)])
        part = messages.ProduceRequest.PartitionProduceData(index=0, records=batch)
        topic = messages.ProduceRequest.TopicProduceData(name="half-open", partition_data=[part])
        self.produce = messages.ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic])

    def ask(self, key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
        head = struct.pack(">hhih", key, version, 1, 4) + b"half" + (b"\0" if flexible else b"")
        self.sock.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            found += self.sock.recv(size - len(found)) or sys.exit("the broker closed the connection")
        return found

    def error(self) -> int:
        answer = self.ask(0, 9, codec.encode(self.produce, 9), flexible=True)
        # After the correlation id and the tags of the header.
        found = codec.decode(messages.ProduceResponse, 9, memoryview(answer)[5:])
        return int(found.responses[0].partition_responses[0].error_code)

    def times_us(self) -> list[float]:
        body = codec.encode(self.produce, 9)
        found = []
        for _ in range(REQUESTS):
            began = time.perf_counter()
            self.ask(0, 9, body, flexible=True)
            found.append((time.perf_counter() - began) * 1e6)
        assert not self.error()
        return sorted(found)


def open_all(address: tuple[str, int], count: int, stack: ExitStack) -> list[socket.socket]:
    found = []
    for _ in range(count):
        each = socket.create_connection(address)
        stack.callback(each.close)
        found.append(each)
    return found


def drip(sockets: list[socket.socket], stop: threading.Event) -> None:
    """A byte of a request on each connection in turn, 1,000 a second."""
    data = struct.pack(">i", PART_BYTES) + bytes(PART_BYTES - 1)
    for at in range(len(data)):
        for each in sockets:
            if stop.wait(0.001):
                return
            each.send(data[at : at + 1])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else CONNECTIONS
    with tempfile.TemporaryDirectory() as place:
        node = Node(Path(place))
        node.start()
        try:
            process = psutil.Process(node.pid)
            producer = Producer((node.host, node.port))
            create = messages.MetadataRequest(
                topics=[messages.MetadataRequest.MetadataRequestTopic(name="half-open")], allow_auto_topic_creation=True
            )
            producer.ask(3, 9, codec.encode(create, 9), flexible=True)
            while producer.error():
                time.sleep(0.1)
            producer.times_us()
            for kind in ("silent", "partial", "dripping") * ROUNDS:
                alone, before = producer.times_us(), process.memory_info().rss
                with ExitStack() as stack:
                    sockets = open_all((node.host, node.login_port), count, stack)
                    stop = threading.Event()
                    if kind == "partial":
                        for each in sockets:
                            each.send(struct.pack(">i", PART_BYTES + 1) + bytes(PART_BYTES))
                    elif kind == "dripping":
                        dripping = threading.Thread(target=drip, args=(sockets, stop), daemon=True)
                        dripping.start()
                    time.sleep(1)
                    beside, memory = producer.times_us(), process.memory_info().rss - before
                    stop.set()
                show(kind, count, alone, beside, memory)
        finally:
            node.close()


def show(kind: str, count: int, alone: list[float], beside: list[float], memory: int) -> None:
    def of(times: list[float]) -> str:
        return f"p50 {statistics.median(times):.0f} us, p99 {times[len(times) * 99 // 100]:.0f} us"

    print(f"{count} {kind}: alone {of(alone)}; beside them {of(beside)}; {memory / count:.0f} bytes each")


if __name__ == "__main__":
    main()
