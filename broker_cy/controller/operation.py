"""The operations of the controller: they take a request and the state, and return records and a reply.

An operation validates against the state that it gets (which includes every operation before it, committed or not),
changes nothing, and returns a `Step`. The controller replays the records at once and the reply goes out when they are
committed. Time and randomness come in through the context.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID

from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.records import VersionedRecord

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig

R = TypeVar("R")

# Kafka's MAX_RECORDS_PER_USER_OP, and the most records in one batch of the log.
RECORDS_PER_STEP_MAX = 10_000


@dataclass(slots=True)
class Step(Generic[R]):
    """Records to append, and the answer once all of them are committed (at once without records).

    An atomic step is one batch of the log, so of at most RECORDS_PER_STEP_MAX records: after a crash either all of it
    or nothing is in the log. Other steps are split into such batches.
    """

    records: list[VersionedRecord]
    reply: R
    atomic: bool = True


@dataclass(frozen=True, slots=True)
class OperationContext:
    """Where an operation runs: the time, the source of ids, and settings of the controller.

    `next_offset` is the offset the step's first record will get.
    """

    now_ms: int
    new_uuid: Callable[[], UUID]
    config: BrokerConfig
    next_offset: int = 0


class Operation(ABC, Generic[R]):
    """A requested change; subclasses are dataclasses around a request."""

    __slots__ = ()

    @abstractmethod
    def run(self, state: MetadataImage, context: OperationContext) -> Step[R]:
        """Raises KafkaError if nothing of the request can be done; errors of a part go into the reply."""
