"""A real Apache Kafka 4.3.1 controller, alone, to which requests are sent as brokers and operators send them."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any, Self

from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.records import MetadataLogError
from broker_cy.wire import codec, frame
from tests.support.kafka_peer import QuickKafka
from tests.support.raw_wire import i16, i32, string

NODE_ID = "3000"
CLUSTER_ID = "vPeWCWqNQ0eGGvvK5wD1kg"
TIMEOUT_S = 30.0
# Short, because Kafka keeps out the successor of a broker for that long, even of one that stopped in order.
SESSION_TIMEOUT_MS = 1_500


class KafkaController(QuickKafka):
    """`ask` sends a request to the controller listener; `image` is the content of its metadata log."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            directory,
            {
                "process.roles": "controller",
                "node.id": NODE_ID,
                "auto.leader.rebalance.enable": "false",
                "unclean.leader.election.interval.ms": "3600000",
                "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
                # No records that are not the effect of a request.
                "metadata.max.idle.interval.ms": "0",
            },
            None,
            ("-Xms256m", "-Xmx256m"),
        )
        self._loader = Loader()
        self._read_bytes = 0
        self._connection: socket.socket | None = None
        self._correlation_id = 0

    def choose_ports(self) -> None:
        super().choose_ports()
        self.port = self.controller_port
        listener = f"CONTROLLER://{self.host}:{self.port}"
        self.settings |= {
            "listeners": listener,
            "advertised.listeners": listener,
            "controller.quorum.voters": f"{NODE_ID}@{self.host}:{self.port}",
        }

    def start(self) -> Self:
        super().start()
        self._connection = socket.create_connection((self.host, self.port), TIMEOUT_S)
        return self

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        super().close()

    def ask(self, request: Any, version: int) -> Any:
        """Return the answer."""
        assert self._connection is not None
        api_key = next(key for key in range(100) if _is_class(key, type(request)))
        self._correlation_id += 1
        head = i16(api_key) + i16(version) + i32(self._correlation_id) + string("test")
        if frame.request_header_version(api_key, version) >= 2:
            head += b"\0"
        content = head + codec.encode(request, version)
        self._connection.sendall(struct.pack(">i", len(content)) + content)
        answer = self._receive(struct.unpack(">i", self._receive(4))[0])
        skipped = 5 if frame.response_header_version(api_key, version) >= 1 else 4
        return codec.decode(frame.response_class(api_key), version, answer[skipped:])

    def _receive(self, count: int) -> bytes:
        assert self._connection is not None
        found = bytearray()
        while len(found) < count:
            part = self._connection.recv(count - len(found))
            if not part:
                raise EOFError(f"the controller closed the connection: {self.tail()}")
            found += part
        return bytes(found)

    @property
    def image(self) -> MetadataImage:
        """The state after all records that are in the log by now."""
        path = self.data_dir / "__cluster_metadata-0" / "00000000000000000000.log"
        with path.open("rb") as log:
            log.seek(self._read_bytes)
            content = log.read()
        # Preallocated, or still being written.
        whole = _whole_batches(content)
        try:
            self._loader.load_log(content[:whole])
        except MetadataLogError as error:
            raise AssertionError(f"Kafka's records do not fit: {error}") from error
        self._read_bytes += whole
        return self._loader.image


def _whole_batches(content: bytes) -> int:
    """The size of the complete batches at the start of `content`."""
    end = 0
    while len(content) - end >= 12:
        size = 12 + struct.unpack_from(">i", content, end + 8)[0]
        if size == 12 or end + size > len(content):
            break
        end += size
    return end


def _is_class(api_key: int, cls: type[Any]) -> bool:
    try:
        return frame.request_class(api_key) is cls
    except (KeyError, ValueError):
        return False
