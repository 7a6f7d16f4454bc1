"""The operations of the controller: they take a request and the state, and yield records and a reply.

An operation validates its request against the given state (which includes every earlier operation, committed or not),
adds its records to the step, and returns the reply. It changes nothing else. The controller replays the records
immediately; the reply is sent when they are committed, or immediately without any. Time and randomness come from the
context.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar
from uuid import UUID

from broker_cy.controller.heartbeats import Heartbeats
from broker_cy.core.classes import NamedTuple
from broker_cy.core.step import Step
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.records import VersionedRecord

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig

R = TypeVar("R")

# Counts partitions that an operation creates or deletes for a quota of the client (KIP-599); raises KafkaError if it is
# exceeded.
Charge = Callable[[int], None]

# Kafka's MAX_RECORDS_PER_USER_OP, and the most records in one batch of the log.
RECORDS_PER_STEP_MAX = 10_000


MetadataStep: TypeAlias = Step[VersionedRecord]
"""An atomic step is one batch of the log, and so has at most RECORDS_PER_STEP_MAX records. Other steps are split into
batches of at most that size.
"""


class OperationContext(NamedTuple):
    """The environment of an operation: the time, the source of ids, and the settings of the controller.

    `next_offset` is the offset that the first record of the step will have. `monotonic_ms` is the time of `heartbeats`,
    the only state besides the image that operations read, and note contacts in.
    """

    now_ms: int
    new_uuid: Callable[[], UUID]
    config: BrokerConfig
    next_offset: int = 0
    monotonic_ms: int = 0
    heartbeats: Heartbeats = field(default_factory=Heartbeats)


class Operation(ABC, Generic[R]):
    """A requested change; subclasses are dataclasses that hold a request."""

    __slots__ = ()

    @abstractmethod
    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> R:
        """Add the records to the step, which is new, and return the reply. Raises KafkaError if no part of the request
        can be done; errors of single parts go into the reply.
        """
