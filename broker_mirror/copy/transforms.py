"""The records of fetched batches after the transforms of a flow."""

from __future__ import annotations

from collections.abc import Sequence

from broker_cy.wire.records import Record
from broker_mirror.transforms.chain import Chain, Message


class Change:
    """Changes the records of one partition: the argument `change` of restamp.cut. `topic` is that of the target.

    `filtered_to` is the offset after the last record that was left out; 0 without one. Records keep their offsets of
    the source, so the runs of a batch end where a record was left out.
    """

    def __init__(self, transforms: Chain, topic: str) -> None:
        self._transforms, self._topic = transforms, topic
        self.filtered_to = 0

    def __call__(self, records: Sequence[Record]) -> list[Record]:
        kept = []
        apply, written = self._transforms.apply, self._transforms.written
        for each in records:
            message = apply(Message(self._topic, each.key, each.value, each.headers, each.timestamp))
            if message is None:
                self.filtered_to = each.offset + 1
                continue
            headers = written(message.headers)
            kept.append(Record(each.offset, message.timestamp, message.key, message.value, headers))
        return kept
