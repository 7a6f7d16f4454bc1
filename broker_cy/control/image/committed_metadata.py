"""The committed metadata on this node: the image, and the listeners to its changes.

The image follows the high watermark of the quorum, under any leader. The leader folds the records of its own operations
into the image (active_controller). Any other node reads the committed batches from its log, a piece in each turn of the
loop, and applies them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from broker_cy.core.logs import facts
from broker_cy.metadata.image import ImageDelta, MetadataImage
from broker_cy.metadata.records import MetadataLogError
from broker_cy.storage.errors import ColdRead, StorageError
from broker_cy.storage.lookups import confined
from broker_cy.storage.page_cache import warm_path

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.control.quorum.metadata_log import MetadataLog
    from broker_cy.metadata.loader import Loader

LOGGER = logging.getLogger("broker_cy.server.metadata")

Listener = Callable[[ImageDelta, MetadataImage], None]

# Bytes of the log that are applied in one turn of the loop: about 3,000 partitions, 20 ms.
REPLAY_BYTES: Final = 256 << 10


class CommittedMetadata:
    """`image` is always the newest committed one. Its offset never decreases."""

    def __init__(
        self,
        loader: Loader,
        files: MetadataLog,
        loop: asyncio.AbstractEventLoop,
        listeners: list[Listener],
        on_committed: Callable[[MetadataImage, int], None],
        on_damage: Callable[[str], None],
        executor: Executor | None = None,
    ) -> None:
        """`listeners` are informed from `publish` on. `on_committed(image, bytes)` is called after them for each
        change, with the size of its records; `on_damage(reason)` if committed records cannot be read or applied.
        `executor` reads data that is not in memory; None: the loop's default one.
        """
        self._loader = loader
        self._files = files
        self._loop = loop
        self._listeners = listeners
        self._on_committed = on_committed
        self._on_damage = on_damage
        self._is_published = False
        self._end_offset = 0  # everything below it is committed
        self._replaying: asyncio.Handle | asyncio.Future[None] | None = None
        self._executor = executor

    @property
    def image(self) -> MetadataImage:
        return self._loader.image

    @property
    def end_offset(self) -> int:
        """Everything below it is in the image."""
        return self._loader.image.offset + 1

    @property
    def in_transaction(self) -> bool:
        """Whether the image ends within a metadata transaction (KIP-868)."""
        return self._loader.in_transaction

    def abort_transaction(self) -> None:
        self._loader.abort_transaction()

    def publish(self) -> None:
        """Inform the listeners of the whole image. A listener that fails on the first image cannot work: its error is
        raised, unlike later.
        """
        self._is_published = True
        delta = ImageDelta.initial(self.image)
        for listener in self._listeners:
            listener(delta, self.image)

    def changed(self, delta: ImageDelta, size_bytes: int) -> None:
        """The image has changed by records of `size_bytes`."""
        if self._is_published:
            for listener in self._listeners:
                try:
                    listener(delta, self.image)
                except Exception:
                    # The change is committed even if a subscriber fails: the others and the clients still get it.
                    LOGGER.exception("a listener failed on a metadata change", extra=facts(offset=self.image.offset))
        self._on_committed(self.image, size_bytes)

    def advance(self, end_offset: int) -> None:
        """Everything below `end_offset` is committed and in the log: apply it, in this and the following turns."""
        self._end_offset = max(self._end_offset, end_offset)
        if self._replaying is None:
            self._replay()

    def replace(self, loader: Loader) -> None:
        """A snapshot of the leader has taken the place of the log."""
        before, self._loader = self.image, loader
        loader.image.generation = before.generation + 1
        self.changed(ImageDelta.between(before, loader.image), 0)

    def stop(self) -> None:
        """Apply nothing more."""
        if self._replaying is not None:
            self._replaying.cancel()
            self._replaying = None
        self._end_offset = 0

    def _replay(self, *, is_read: bool = False) -> None:
        """Apply the next piece. `is_read`: a worker has just brought it into memory."""
        self._replaying = None
        if self.end_offset >= self._end_offset:
            return
        try:
            read = partial(self._files.read, self.end_offset, self._end_offset, REPLAY_BYTES)
            found = read() if is_read else confined(read)
            if isinstance(found, ColdRead):
                self._warm(found)
                return
            content = found
            if not content:
                return
            delta = self._loader.follow(content)
        except (MetadataLogError, StorageError, OSError) as error:
            self._on_damage(f"{self._files.directory}: the records from offset {self.end_offset} on: {error}")
            return
        if self.end_offset < self._end_offset:
            self._replaying = self._loop.call_soon(self._replay)
        self.changed(delta, len(content))

    def _warm(self, cold: ColdRead) -> None:
        work = self._loop.run_in_executor(self._executor, warm_path, cold.path, cold.position, cold.size)
        self._replaying = asyncio.ensure_future(work)

        def read(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and self._replaying is done:
                self._replay(is_read=True)

        self._replaying.add_done_callback(read)
