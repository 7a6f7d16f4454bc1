"""The controller as a state machine: it takes operations and returns records and replies. It holds no file, socket or
clock.

`image` is committed. The records of each operation are a layer above it, sealed with the offset at which they end, and
operations are validated against the uppermost state. `commit` folds the layers up to an offset into `image`; `abandon`
drops those that will never be committed, all of them if this node no longer leads.
"""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from broker_cy.controller.heartbeats import Heartbeats
from broker_cy.controller.operation import RECORDS_PER_STEP_MAX, MetadataStep, Operation, OperationContext
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import ImageDelta, MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.replay import replay

R = TypeVar("R")

# These records start and end a transaction; the records between them take effect when it ends. Here only `Activate`
# writes them. Its step is a single batch, so no part of it can fail alone, and its records are applied immediately.
_TRANSACTION_MARKS = frozenset({"BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"})


class Layer(NamedTuple):
    """The changes of one batch, whose records end at `end_offset` (exclusive)."""

    end_offset: int
    changes: MetadataImage


class Controller:
    """Invariants: `image` holds exactly the committed records; the layers ascend, and each begins where the one below
    ends; `state` is the image with all layers.

    `state` is one overlay over the image with the changes of all layers, so that a read costs the same however many
    operations wait for their commit. `heartbeats` is not in the log: see there.
    """

    __slots__ = ("_layers", "_top", "heartbeats", "image")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.heartbeats = Heartbeats()
        self._layers: deque[Layer] = deque()
        self._top = image.branch()

    @property
    def state(self) -> MetadataImage:
        """The state with all accepted operations, committed or not."""
        return self._top

    def run(self, operation: Operation[R], context: OperationContext) -> tuple[list[list[VersionedRecord]], R]:
        """Validate the operation and apply its records. Returns the batches of the log, and the reply. Raises
        KafkaError; nothing has changed then.

        The records have the offsets from `context.next_offset` on, and each batch of them is a layer. The caller
        appends them, and calls `abandon` if that fails.
        """
        step = MetadataStep()
        reply = operation.run(self._top, step, context)
        if step.atomic and len(step.records) > RECORDS_PER_STEP_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Unable to perform excessively large batch operation: {len(step.records)} records; "
                f"at most {RECORDS_PER_STEP_MAX} are allowed.",
            )
        # Merged at the end: if a record does not fit the state, which is a bug, the step has no effect.
        above = self._top.branch()
        layers = []
        offset = context.next_offset
        batches = list(step.batches(RECORDS_PER_STEP_MAX))
        for batch in batches:
            changes = above.branch()
            for record in batch:
                if type(record.message).__name__ not in _TRANSACTION_MARKS:
                    replay(changes, record.message)
                changes.offset = offset
                offset += 1
            above.merge(changes)
            layers.append(Layer(offset, changes))
        if layers:
            self._top.merge(above)
            self._layers += layers
        return batches, reply

    def skip_to(self, offset: int) -> None:
        """Note that the next appended entry, at `offset`, is a control record, which changes nothing here."""
        changes = self._top.branch()
        changes.offset = offset
        self._top.merge(changes)
        self._layers.append(Layer(offset + 1, changes))

    def commit(self, end_offset: int, epoch: int) -> ImageDelta | None:
        """Fold the layers that end at or below `end_offset` into the image; `epoch` is that of their records. Returns
        the changes, None without such a layer.
        """
        if not self._layers or self._layers[0].end_offset > end_offset:
            return None
        is_all = self._layers[-1].end_offset <= end_offset
        if is_all:
            folded = self._top
            self._layers.clear()
        else:
            folded = self.image.branch()
            while self._layers[0].end_offset <= end_offset:
                changes = self._layers.popleft().changes
                folded.merge(changes)
                self._top.forget(changes)
        folded.epoch = self._top.epoch = epoch
        delta = self.image.absorb(folded)
        if is_all:
            self._top = self.image.branch()
        return delta

    def abandon(self, end_offset: int = -1) -> None:
        """Drop the layers that end above `end_offset`: they are not in the log. By default all are dropped."""
        kept = deque(layer for layer in self._layers if layer.end_offset <= end_offset)
        self._top = self.image.branch()
        for layer in kept:
            self._top.merge(layer.changes)
        self._layers = kept
