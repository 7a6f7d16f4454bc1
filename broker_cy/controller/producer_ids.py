"""Blocks of producer ids, each given to one broker."""

from __future__ import annotations

from broker_cy.controller.broker_records import check_epoch
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

PRODUCER_ID_BLOCK_SIZE = 1000  # Kafka's ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE
PRODUCER_ID_MAX = 2**63 - 1
# A cluster with mirrors gives out ids of a range of its own, of so many bits (mirror_ops).
PRODUCER_ID_RANGE_BITS = 40


class ProducerIdBlock(NamedTuple):
    """Producer ids `first` to `first + size - 1`, given to one broker and never to another one."""

    first: int
    size: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Operation[ProducerIdBlock]):
    """Give the broker a block of producer ids (AllocateProducerIds, KIP-730)."""

    broker_id: int
    broker_epoch: int

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> ProducerIdBlock:
        check_epoch(state, self.broker_id, self.broker_epoch)
        first = state.next_producer_id
        if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit: "
                f"{first}",
            )
        record = messages.ProducerIdsRecord(
            broker_id=self.broker_id, broker_epoch=self.broker_epoch, next_producer_id=first + PRODUCER_ID_BLOCK_SIZE
        )
        step.records.append(VersionedRecord(record))
        return ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE)
