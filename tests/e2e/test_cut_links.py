"""A link between a leader and one follower drops everything in one direction, without closing connections."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bench.launch.nodes import free_ports
from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from tests.support.cluster import ClusterNode, create_topic, in_sync, running, topics
from tests.support.wait import until

WAIT_S = 60.0
FETCH = 1
SIZE = struct.Struct(">i")
# No session expires, and no follower leaves the in-sync set because it is slow, during this test.
SETTINGS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "600000",
    "broker.session.timeout.ms": "600000",
}


class _Pair:
    """A client's connection, and the corresponding one to the broker."""

    def __init__(self, writer: asyncio.StreamWriter, back: asyncio.StreamWriter) -> None:
        self.writer, self.back = writer, back
        self.client = ""  # the broker id of the fetches on it

    def close(self) -> None:
        self.writer.close()
        self.back.close()


class OneWay:
    """Forwards connections to a broker. `cut` is a direction ("requests" or "answers"), in which the connections that
    carry fetches of the broker `follower` lose everything; "" for none.
    """

    def __init__(self) -> None:
        self.cut = ""
        self.follower = -1
        self.upstream = 0
        self._damaged: list[_Pair] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="one-way", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result(WAIT_S)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def mend(self) -> None:
        """Stop losing data, and close the connections that have lost some."""
        self.cut = ""
        for pair in self._damaged:
            self._loop.call_soon_threadsafe(pair.close)

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            mine = asyncio.current_task()
            others = [task for task in asyncio.all_tasks() if task is not mine]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(WAIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", self.upstream)
            pair = _Pair(writer, back)
            try:
                await asyncio.gather(self._requests(pair, reader), self._answers(pair, there))
            finally:
                pair.close()

    async def _requests(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        with suppress(EOFError, OSError):
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(SIZE.unpack(size)[0])
                if int.from_bytes(frame[:2]) == FETCH:
                    pair.client = frame[10 : 10 + int.from_bytes(frame[8:10])].decode()
                if not self._loses("requests", pair):
                    pair.back.write(size + frame)
        pair.close()

    async def _answers(self, pair: _Pair, there: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await there.read(65_536):
                if not self._loses("answers", pair):
                    pair.writer.write(data)
        pair.close()

    def _loses(self, direction: str, pair: _Pair) -> bool:
        if direction != self.cut or pair.client != f"broker-{self.follower}-fetcher":
            return False
        self._damaged.append(pair)
        return True


class Node(ClusterNode):
    """A node that other brokers reach through `proxy`."""

    def write_properties(self, voters: str) -> None:
        super().write_properties(voters)
        text = self.properties.read_text().replace(
            "listeners=PLAINTEXT", f"listeners=REPLICATION://127.0.0.1:{self.replication_port},PLAINTEXT", 1
        )
        self.properties.write_text(
            text + f"advertised.listeners=REPLICATION://127.0.0.1:{self.proxy.port},PLAINTEXT://127.0.0.1:{self.port}\n"
            "inter.broker.listener.name=REPLICATION\n"
            "listener.security.protocol.map=REPLICATION:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        )

    def prepare(self) -> None:
        self.proxy = OneWay()
        self.choose_ports()
        self.replication_port = self.proxy.upstream = free_ports(1)[0]


@contextmanager
def nodes_behind_proxies(directory: Path, settings: dict[str, str]) -> Iterator[list[Node]]:
    nodes = [
        Node(directory / f"node-{number}", number, "broker,controller", {**SETTINGS, **settings})
        for number in (1, 2, 3)
    ]
    for node in nodes:
        node.prepare()
    try:
        with running(nodes):
            yield nodes
    finally:
        for node in nodes:
            node.proxy.close()


def acknowledged(producer: Producer) -> None:
    """Send a record and wait until it is acknowledged."""
    results: list[object] = []
    producer.produce("t", b"x", partition=0, on_delivery=lambda error, _: results.append(error))

    def done() -> bool:
        producer.poll(0.05)
        return bool(results)

    until(done, "an acknowledgement", WAIT_S)
    assert results == [None]


@pytest.mark.parametrize("direction", ["requests", pytest.param("answers", marks=pytest.mark.full)])
def test_a_one_way_cut_does_not_stop_producers(tmp_path: Path, direction: str) -> None:
    """If this fails, acks=all waits for replica.lag.time.max.ms when a link between two brokers loses everything."""
    with nodes_behind_proxies(tmp_path, {}) as nodes:
        assert create_topic(nodes[0].port, "t", 1, 3) is ErrorCode.NONE
        until(lambda: in_sync(nodes[0].port, "t", 3), "three replicas in sync", WAIT_S, tolerate=(ClientError,))
        part = topics(nodes[0].port)["t"].partitions[0]
        leader = nodes[part.leader_id - 1]
        producer = Producer({"bootstrap.servers": leader.bootstrap, "acks": "all", "linger.ms": 0})
        acknowledged(producer)
        leader.proxy.follower = next(node.node_id for node in nodes if node is not leader)
        leader.proxy.cut = direction
        began_s = time.monotonic()
        acknowledged(producer)
        print(f"acknowledged after {time.monotonic() - began_s:.2f} s")
        now = topics(leader.port)["t"].partitions[0]
        assert now.leader_id == leader.node_id
        # The leader acknowledges when the controller answers; its own metadata may follow later. Only the follower's
        # silence removes it: see SETTINGS.
        until(
            lambda: leader.proxy.follower not in topics(leader.port)["t"].partitions[0].isr_nodes,
            "an in-sync set without the follower",
            WAIT_S,
            tolerate=(ClientError,),
        )
        leader.proxy.mend()
        until(lambda: in_sync(leader.port, "t", 3), "three replicas in sync", WAIT_S, tolerate=(ClientError,))
        producer.flush(WAIT_S)
