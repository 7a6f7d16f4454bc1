"""Reading the metadata log and its snapshots into an image."""

from __future__ import annotations

from dataclasses import replace

from broker_cy.metadata import framing
from broker_cy.metadata.image import ImageDelta, MetadataImage
from broker_cy.metadata.records import MetadataLogError
from broker_cy.metadata.replay import replay
from broker_cy.metadata.snapshot import KRaftState, SnapshotId
from broker_cy.wire.control import KraftVersion, KraftVoters
from broker_cy.wire.records import Batch


class Loader:
    """Applies batches to `image` in order. A metadata transaction (KIP-868) is applied when it ends; `in_transaction`
    is True between the start of one and its end or abort.
    """

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.kraft = KRaftState()
        self.log_bytes = 0  # of the part of the log that the snapshot does not cover
        # The quorum's state in the snapshot, and one entry for each change in the log behind it, until the first
        # `follow`: an uncommitted change may be undone after a start, and then the previous entry applies.
        self.kraft_in_snapshot = KRaftState()
        self.kraft_in_log: list[tuple[int, KRaftState]] = []
        self._transaction: MetadataImage | None = None
        # Records are applied to the image, or to a branch of it if the caller needs the changes.
        self._target = self.image

    @property
    def in_transaction(self) -> bool:
        return self._transaction is not None

    def load_snapshot(self, content: bytes, snapshot_id: SnapshotId) -> None:
        """Fill the empty image. Raises MetadataLogError for a snapshot that does not parse."""
        assert self.image.offset < 0
        for batch in framing.batches(content):
            self._apply(batch)
        self.kraft_in_snapshot = replace(self.kraft)
        self._reached(snapshot_id.end_offset - 1, snapshot_id.epoch)

    def load_log(self, content: bytes) -> None:
        """Apply whole batches of the log, except for records that a snapshot already covers."""
        for batch in framing.batches(content):
            if batch.last_offset <= self._target.offset:
                continue
            voters, level = self.kraft.voters, self.kraft.kraft_version
            self._apply(batch)
            is_changed = self.kraft.voters is not voters or self.kraft.kraft_version != level
            if is_changed and self._target is self.image:
                self.kraft_in_log.append((batch.base_offset, replace(self.kraft)))
            self.log_bytes += batch.size_bytes
            self._reached(batch.last_offset, batch.leader_epoch)

    def follow(self, content: bytes) -> ImageDelta:
        """`load_log`, and return the changes. If MetadataLogError is raised, nothing has changed."""
        assert self._target is self.image
        self._target = self.image.branch()
        transaction = self._transaction
        try:
            self.load_log(content)
        except MetadataLogError:
            self._transaction = transaction
            raise
        finally:
            changed, self._target = self._target, self.image
        return self.image.absorb(changed)

    def abort_transaction(self) -> None:
        """The leader that writes an AbortTransactionRecord does not read it."""
        self._transaction = None

    def _reached(self, offset: int, epoch: int) -> None:
        self._target.offset = self._target.features.epoch = offset
        self._target.epoch = epoch
        if self._target is self.image:
            # The caller does not need the changes and their authors.
            self.image.authors.clear()

    def _apply(self, batch: Batch) -> None:
        if batch.is_control:
            self._apply_control(batch)
            return
        for offset, record in framing.records_in(batch):
            try:
                self._apply_record(record.message)
            except MetadataLogError as error:
                raise MetadataLogError(f"record at offset {offset}: {error}") from error

    def _apply_control(self, batch: Batch) -> None:
        for message in framing.control_messages_in(batch):
            if isinstance(message, KraftVersion):
                self.kraft.kraft_version = message.kraft_version
            elif isinstance(message, KraftVoters):
                self.kraft.voters = message

    def _apply_record(self, message: object) -> None:
        name = type(message).__name__
        if name == "BeginTransactionRecord":
            if self._transaction is not None:
                raise MetadataLogError("BeginTransactionRecord before the end of the previous transaction")
            self._transaction = self._target.branch()
        elif name == "EndTransactionRecord":
            if self._transaction is None:
                raise MetadataLogError("EndTransactionRecord without a BeginTransactionRecord")
            self._target.merge(self._transaction)
            self._transaction = None
        elif name == "AbortTransactionRecord":
            if self._transaction is None:
                raise MetadataLogError("AbortTransactionRecord without a BeginTransactionRecord")
            self._transaction = None
        else:
            replay(self._target if self._transaction is None else self._transaction, message)
