"""The controller as a state machine: operations in, records out; it holds no file, socket or clock.

There are three layers of state: `image` is committed; above it are the changes that are being synced, if any; above
them those that came later. Operations are validated against the top. `seal` marks the top as being written to disk,
`commit` as being on disk, and `abandon` drops everything that is not committed.
"""

from __future__ import annotations

from typing import TypeVar

from broker_cy.controller.operation import RECORDS_PER_STEP_MAX, Operation, OperationContext, Step
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import ImageDelta, MetadataImage
from broker_cy.metadata.replay import replay

R = TypeVar("R")

# These start and end a transaction; the records between them are applied at its end. Here they come only from
# `Activate`, whose whole step is one batch, so that nothing between them can fail.
_TRANSACTION_MARKS = frozenset({"BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"})


class Controller:
    """Invariants: `image` holds exactly the committed records; at most one sealed layer at a time."""

    __slots__ = ("_sealed", "_top", "image")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._sealed: MetadataImage | None = None
        self._top = image.branch()

    @property
    def state(self) -> MetadataImage:
        """Everything that was accepted, committed or not."""
        return self._top

    def run(self, operation: Operation[R], context: OperationContext) -> Step[R]:
        """Validate the operation and apply its records. Raises KafkaError, and then nothing has changed.

        The records are at `context.next_offset` and after; the caller appends them, and undoes everything with
        `abandon` if it cannot.
        """
        step = operation.run(self._top, context)
        if step.atomic and len(step.records) > RECORDS_PER_STEP_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Unable to perform excessively large batch operation: {len(step.records)} records, "
                f"{RECORDS_PER_STEP_MAX} allowed.",
            )
        if step.records:
            # On a layer of their own first: a step with a record that does not fit, which is a bug, leaves nothing
            # behind.
            above = self._top.branch()
            for offset, record in enumerate(step.records, context.next_offset):
                if type(record.message).__name__ not in _TRANSACTION_MARKS:
                    replay(above, record.message)
                above.offset = offset
            self._top.merge(above)
        return step

    def skip_to(self, offset: int) -> None:
        """The entry at `offset`, appended next, is a control record and changes nothing here."""
        self._top.offset = offset

    def seal(self) -> None:
        """What was accepted so far goes to disk now; later operations stand above it."""
        assert self._sealed is None
        self._sealed = self._top
        self._top = self._sealed.branch()

    def commit(self, epoch: int) -> ImageDelta:
        """What was sealed is on disk: it becomes the image."""
        assert self._sealed is not None
        sealed, self._sealed = self._sealed, None
        sealed.epoch = epoch
        delta = self.image.absorb(sealed)
        self._top.rebase(self.image)
        self._top.epoch = epoch
        return delta

    def abandon(self) -> None:
        """Return to the last committed image."""
        self._sealed = None
        self._top = self.image.branch()
