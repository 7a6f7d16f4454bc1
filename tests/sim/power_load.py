"""The batches that clients write in the power cut simulation: with and without a producer id or keys, and
transactions.
"""

from __future__ import annotations

import random
from typing import Any

from broker_cy.core.clock import ManualClock
from broker_cy.core.errors import KafkaError
from broker_cy.replica.partition import Partition
from broker_cy.wire.marker import encode_marker
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.storage.batches import batch
from tests.sim.power_model import Batch, Model
from tests.sim.power_transactions import TransactionPart

KEYS = (b"a", b"b", b"c", b"d")
DELETE_RETENTION_MS = 60
IDEMPOTENT, TRANSACTIONAL = 5, (7, 8)
TRANSACTIONAL_ATTRIBUTE = 0x10


class Load:
    """Appends, and the state of the producers: their sequences, by life of a partition."""

    def __init__(self, draw: random.Random, clock: ManualClock) -> None:
        self.draw = draw
        self.clock = clock
        self.sequences: dict[tuple[Any, int], int] = {}

    def append(self, partition: Partition, model: Model) -> None:
        """Append a few batches."""
        for _ in range(self.draw.randint(1, 3)):
            try:
                self._append_one(partition, model)
            except KafkaError:
                # Nothing was staged: the active segment could not be opened.
                return

    def _append_one(self, partition: Partition, model: Model) -> None:
        now_ms = self.clock.wall_ms()
        if partition.topic == "txn" and self.draw.random() < 0.7:
            written, future = self._transactional(partition, model, now_ms)
        else:
            written = self._keyed(partition) if partition.log.config.compact else self._plain(partition, model)
            future = partition.append_records(written.data, now_ms)
        model.batches.append(written)

        def failed(_: BaseException) -> None:
            if written in model.batches and written.base >= partition.log.written_end_offset:
                # If the write could not be undone either, the log went offline.
                model.write_failed(written, is_certain=partition.log.offline is None)

        future.on_error = failed

    def _header(self, partition: Partition, model: Model, producer_id: int, count: int) -> dict[str, Any]:
        """Fields of a batch header; takes the sequences of its `count` records."""
        fields: dict[str, Any] = {"timestamp": self.clock.wall_ms(), "leader_epoch": partition.leader_epoch}
        if producer_id >= 0:
            key = (model.topic_id, producer_id)
            sequence = self.sequences.get(key, 0)
            self.sequences[key] = sequence + count
            fields |= {"producer_id": producer_id, "producer_epoch": 0, "sequence": sequence}
        return fields

    def _plain(self, partition: Partition, model: Model) -> Batch:
        base, count = partition.log.log_end_offset, self.draw.randint(1, 3)
        producer_id = self.draw.choice([-1, IDEMPOTENT])
        fields = self._header(partition, model, producer_id, count)
        data = batch(base, count, payload=self.draw.randbytes(self.draw.randint(0, 250)), **fields)
        last_sequence = fields.get("sequence", -count) + count - 1
        return Batch(base, base + count - 1, data, self.clock.wall_ms(), (), producer_id, last_sequence)

    def _transactional(self, partition: Partition, model: Model, now_ms: int) -> tuple[Batch, Any]:
        """A batch of a transaction, or the marker that ends it."""
        base = partition.log.log_end_offset
        producer_id = self.draw.choice(TRANSACTIONAL)
        begun = self._open_transaction(model, producer_id)
        if begun is not None and self.draw.random() < 0.5:
            commit = self.draw.random() < 0.5
            future: Any = partition.append_marker(producer_id, 0, 0, commit, now_ms, transaction_version=1)
            marker = bytearray(encode_marker(producer_id, 0, 0, commit, now_ms))
            marker[:8], marker[12:16] = base.to_bytes(8), partition.leader_epoch.to_bytes(4)
            part = TransactionPart(producer_id, begun, is_marker=True, is_commit=commit)
            return Batch(base, base, bytes(marker), now_ms, transaction=part), future
        count = self.draw.randint(1, 3)
        fields = self._header(partition, model, producer_id, count)
        payload = self.draw.randbytes(self.draw.randint(0, 150))
        data = batch(base, count, attributes=TRANSACTIONAL_ATTRIBUTE, payload=payload, **fields)
        part = TransactionPart(producer_id, base if begun is None else begun)
        last_sequence = fields["sequence"] + count - 1
        written = Batch(base, base + count - 1, data, now_ms, (), producer_id, last_sequence, part)
        return written, partition.append_transactional(written.data, now_ms, None)

    @staticmethod
    def _open_transaction(model: Model, producer_id: int) -> int | None:
        """First offset of the producer's transaction that has no marker yet; None if there is none."""
        for each in reversed(model.batches):
            part = each.transaction
            if part is not None and part.producer_id == producer_id:
                return None if part.is_marker else part.first_offset
        return None

    def _keyed(self, partition: Partition) -> Batch:
        base = partition.log.log_end_offset
        records = tuple(
            (base + at, self.draw.choice(KEYS), self.draw.choice([None, b"%d" % base, b"%d" % base + b"v" * 40]))
            for at in range(self.draw.randint(1, 3))
        )
        data = encode_batch(
            [Record(timestamp=self.clock.wall_ms(), key=key, value=value) for _, key, value in records],
            base_offset=base,
            leader_epoch=partition.leader_epoch,
        )
        return Batch(base, base + len(records) - 1, data, self.clock.wall_ms(), records)
