"""The load of `bench.studies.registry`: schemas, and clients that keep their connections."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final, Self

from bench.targets.brokers import TargetError
from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from broker_registry.store.values import SchemaContent, SchemaValue

TIMEOUT_S: Final = 30.0
FIELDS: Final = 5
BATCH_BYTES: Final = 500_000
MESSAGES, FIELDS_OF_A_MESSAGE = 100, 13
TYPE: Final = "application/vnd.schemaregistry.v1+json"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END: Final = b"\r\n\r\n"


def avro(number: int) -> str:
    """Return a record of 370 characters, each number another one."""
    fields = [{"name": f"field_{index}", "type": ["null", "string"], "default": None} for index in range(FIELDS)]
    record = {"type": "record", "name": f"Order{number}", "namespace": "com.example.orders", "fields": fields}
    return json.dumps(record, separators=(",", ":"))


def proto(number: int) -> str:
    """Return a file of 1,500 lines, each number another one."""
    lines = ['syntax = "proto3";', f"package com.example.v{number};"]
    for message in range(MESSAGES):
        lines.append(f"message Message{message} {{")
        lines += [f"  optional string field_{index} = {index};" for index in range(1, FIELDS_OF_A_MESSAGE + 1)]
        lines.append("}")
    return "\n".join(lines) + "\n"


def filled(number: int) -> str:
    """Return a subject of `fill`."""
    return f"orders-{number}-value"


async def fill(bootstrap: str, count: int, topic: str = "_schemas") -> None:
    """Write `count` subjects with a schema each into the topic of our registry, with the ids from 1 on."""
    async with AdminClient(bootstrap, timeout_s=TIMEOUT_S) as client:
        (await client.topics.create([NewTopic(topic, 1, 1, {"cleanup.policy": "compact"})])).whole()
        producer = client.records.producer()
        batch: list[Record] = []
        size_bytes = 0
        for number in range(1, count + 1):
            value = SchemaValue(filled(number), 1, number, SchemaContent("AVRO", avro(number)))
            batch.append(Record(timestamp=number, key=value.key.encode(), value=value.encode()))
            size_bytes += len(batch[-1].value or b"")
            if size_bytes >= BATCH_BYTES or number == count:
                await producer.send_batch(TopicPartition(topic, 0), batch)
                batch, size_bytes = [], 0


class Connection:
    """One connection; a request is sent when the answer to the one before has come."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def status(self) -> int:
        """Return the status of the next answer, and drop its body."""
        status, _ = self.answer()
        return status

    def answer(self) -> tuple[int, bytes]:
        """Return status and body of the next answer."""
        while (end := self._data.find(_END)) < 0:
            self._read()
        found = _LENGTH.search(self._data, 0, end)
        if found is None:
            raise TargetError(f"an answer without a length: {self._data[:end]!r}")
        whole = end + len(_END) + int(found[1])
        while len(self._data) < whole:
            self._read()
        status, body = int(self._data[9:12]), self._data[end + len(_END) : whole]
        self._data = self._data[whole:]
        return status, body

    def _read(self) -> None:
        got = self._socket.recv(1 << 16)
        if not got:
            raise ConnectionResetError("the registry closed the connection")
        self._data += got


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: registry\r\nAccept: {TYPE}, application/json\r\n\r\n".encode()


def post(path: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: registry\r\nAccept: {TYPE}\r\nContent-Type: {TYPE}\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def registration(root: str, subject: str, text: str, kind: str = "AVRO") -> bytes:
    members = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
    return post(f"{root}/subjects/{subject}/versions", members)


def together(connections: Sequence[Connection], requests: Iterator[bytes]) -> int:
    """Send the requests over all connections at a time until there are none; returns their number. Raises TargetError
    if one is refused.
    """
    done = 0
    while True:
        busy = []
        for each in connections:
            request = next(requests, None)
            if request is None:
                break
            each.send(request)
            busy.append(each)
        for each in busy:
            status, body = each.answer()
            if status != 200:
                raise TargetError(f"status {status}: {body[:500]!r}")
        done += len(busy)
        if len(busy) < len(connections):
            return done


class Author(threading.Thread):
    """Registers a large .proto after the other until it is stopped."""

    def __init__(self, address: tuple[str, int], root: str, first: int) -> None:
        super().__init__(name="author", daemon=True)
        self._address, self._root, self._number = address, root, first
        self.done = 0
        self.problem = ""
        self.is_stopped = threading.Event()

    def run(self) -> None:
        with Connection(self._address) as connection:
            while not self.is_stopped.is_set():
                number = self._number + self.done
                connection.send(registration(self._root, f"large-{number}", proto(number), "PROTOBUF"))
                status, body = connection.answer()
                if status != 200:
                    self.problem = f"status {status}: {body[:500]!r}"
                    return
                self.done += 1


@contextlib.contextmanager
def authoring(address: tuple[str, int], root: str, first: int) -> Iterator[Author]:
    author = Author(address, root, first)
    author.start()
    try:
        yield author
    finally:
        author.is_stopped.set()
        author.join(TIMEOUT_S)


def timed_ms(address: tuple[str, int], request: bytes, rate: int, seconds: float) -> list[float]:
    """Send a request at a fixed rate over one connection; returns the times from when each was due to its answer, in
    order of size.
    """
    found = []
    with Connection(address) as connection:
        begun_s = time.perf_counter()
        for number in range(int(rate * seconds)):
            due_s = begun_s + number / rate
            while (wait_s := due_s - time.perf_counter()) > 0:
                time.sleep(wait_s)
            connection.send(request)
            if connection.status() != 200:
                raise TargetError("a request of a schema by its id was refused")
            found.append((time.perf_counter() - due_s) * 1000)
    return sorted(found)
