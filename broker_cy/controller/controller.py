"""The controller as a state machine: it takes operations and returns records. It holds no file, socket or clock.

There are three layers of state: `image` is committed, the sealed layer has the changes that are being written to disk,
if there are any, and the top layer has all later changes. Operations are validated against the top layer. `seal` turns
the top layer into the sealed one, `commit` merges the sealed layer, which is on disk then, into `image`, and `abandon`
drops everything that is not committed.
"""

from __future__ import annotations

from typing import TypeVar

from broker_cy.controller.operation import RECORDS_PER_STEP_MAX, Operation, OperationContext, Step
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import ImageDelta, MetadataImage
from broker_cy.metadata.replay import replay

R = TypeVar("R")

# These records start and end a transaction; the records between them take effect when it ends. Here only `Activate`
# writes them. Its step is a single batch, so nothing can fail in between, and its records are applied at once.
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
        """The state with all accepted operations, committed or not."""
        return self._top

    def run(self, operation: Operation[R], context: OperationContext) -> Step[R]:
        """Validate the operation and apply its records. Raises KafkaError; nothing has changed then.

        The records have the offsets from `context.next_offset` on. The caller appends them, and calls `abandon` if that
        fails, which undoes everything that is not committed.
        """
        step = operation.run(self._top, context)
        if step.atomic and len(step.records) > RECORDS_PER_STEP_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Unable to perform excessively large batch operation: {len(step.records)} records; "
                f"at most {RECORDS_PER_STEP_MAX} are allowed.",
            )
        if step.records:
            # Applied to a separate layer first: if a record does not fit the state, which is a bug, the step has no
            # effect.
            above = self._top.branch()
            for offset, record in enumerate(step.records, context.next_offset):
                if type(record.message).__name__ not in _TRANSACTION_MARKS:
                    replay(above, record.message)
                above.offset = offset
            self._top.merge(above)
        return step

    def skip_to(self, offset: int) -> None:
        """Note that the next appended entry, at `offset`, is a control record, which changes nothing here."""
        self._top.offset = offset

    def seal(self) -> None:
        """Seal the accepted operations, which are written to disk now; later operations go to a new layer above."""
        assert self._sealed is None
        self._sealed = self._top
        self._top = self._sealed.branch()

    def commit(self, epoch: int) -> ImageDelta:
        """Merge the sealed operations, which are on disk, into the image. Returns the changes."""
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
