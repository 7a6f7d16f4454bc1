"""A Produce request of one record that is encoded once, and changed in place for each further record."""

from __future__ import annotations

import struct
import time

from broker_cy.client.transaction import produce_message
from broker_cy.core import crc32c
from broker_cy.wire import codec, frame, messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.records import Record, encode_batch
from loadgen.net.connection import Connection
from loadgen.verify.prefix import CHANGING, CHANGING_AT, PREFIX

NS_PER_MS = 1_000_000
# Offsets of fields in a record batch (magic 2), and the start of the part covered by its checksum.
_CRC_AT, _CHECKED_AT, _TIMES_AT, _BASE_SEQUENCE_AT = 17, 21, 27, 53
_TIMES = struct.Struct(">qq")
_I32 = struct.Struct(">i")
_U32 = struct.Struct(">I")


class Template:
    """The request to one partition over one connection. `stamp` is (run, producer): its prefix precedes `value`."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        partition: int,
        value: bytes,
        *,
        stamp: tuple[int, int] | None,
        identity: tuple[int, int],
        version: int,
        acks: int,
        timeout_ms: int,
    ) -> None:
        self.connection = connection
        self._is_idempotent = identity[0] >= 0
        if stamp is not None:
            value = PREFIX.pack(*stamp, 0, 0) + value
        self.value_bytes = len(value)
        batch = encode_batch(
            [Record(timestamp=0, value=value)], producer_id=identity[0], producer_epoch=identity[1],
            base_sequence=0 if self._is_idempotent else -1,
        )  # fmt: skip
        request = produce_message((topic, partition), batch, timeout_ms, acks=acks)
        self._version = version
        self._flexible = frame.response_header_version(ApiKey.PRODUCE, version) == 1
        self._request = connection.request(ApiKey.PRODUCE, version, codec.encode(request, version))
        at = self._request.index(batch)
        self._crc_at, self._times_at, self._sequence_at = at + _CRC_AT, at + _TIMES_AT, at + _BASE_SEQUENCE_AT
        self._checked = memoryview(self._request)[at + _CHECKED_AT : at + len(batch)]
        # The value is the last field of the record, except for the count of headers, which is one byte.
        self._stamp_at = at + len(batch) - 1 - len(value) + CHANGING_AT if stamp is not None else 0

    def fill(self, sequence: int, due_ns: int, base_sequence: int) -> None:
        """Put the fields of the next record in place; `sequence` is that of the ledger, `base_sequence` Kafka's."""
        request = self._request
        now_ms = time.time_ns() // NS_PER_MS
        _TIMES.pack_into(request, self._times_at, now_ms, now_ms)
        if self._stamp_at:
            CHANGING.pack_into(request, self._stamp_at, sequence, due_ns)
        if self._is_idempotent:
            _I32.pack_into(request, self._sequence_at, base_sequence)
        _U32.pack_into(request, self._crc_at, crc32c.value(self._checked))

    def send(self) -> int:
        """Send the request, and return the error code of the answer. Raises NetError and WireError."""
        return produce_code(self._version, self.connection.exchange_again(self._request, self._flexible))


def produce_code(version: int, body: memoryview) -> int:
    """Return the error code of a Produce answer for one partition. Raises WireError."""
    answer = codec.decode(messages.ProduceResponse, version, body)
    return int(answer.responses[0].partition_responses[0].error_code)
