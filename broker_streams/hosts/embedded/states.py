"""The state on disk of the tasks of one instance: opened for tasks, cleaned up, and copied to snapshots."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker_streams.hosts.settings import HostSettings
from broker_streams.kernel.build import with_place
from broker_streams.kernel.errors import StreamsError
from broker_streams.kernel.stores.factory import is_kept
from broker_streams.plan.stores import Store
from broker_streams.plan.topology import Subtopology
from broker_streams.state.directory import StateDirectory, TaskDirectory
from broker_streams.state.stamp import Log

if TYPE_CHECKING:
    from broker_streams.state.snapshots import Snapshots
    from broker_streams.state.task_state import TaskState

_LOG = logging.getLogger("broker_streams")
# The least memory for changed rows of a task, however many tasks share a setting that is larger.
BUFFER_BYTES_MIN: Final = 1 << 20
# Between two looks for tasks whose snapshot is due.
LOOK_S: Final = 1.0
# The name of the state of global stores, among those of tasks.
GLOBAL: Final = "global"


class States:
    """`open` a state for a task; `close` it. `look_after` runs beside the tasks."""

    def __init__(self, settings: HostSettings, now_ms: Callable[[], int]) -> None:
        self.settings, self._now_ms = settings, now_ms
        self._directory = StateDirectory(Path(settings.state_dir), settings.application_id)
        self._open: dict[str, TaskState] = {}
        # The time of the last snapshot of each task, and the stamp that it has.
        self._copied: dict[str, tuple[int, Any]] = {}
        self._clean_due_ms = 0
        self._is_on_disk = _has_lmdb(settings)

    def stores_of(self, stores: Iterable[Store]) -> list[Store]:
        """Those that are kept on disk."""
        found = (with_place(each, self.settings.task) for each in stores)
        return [each for each in found if is_kept(each)] if self._is_on_disk else []

    def open(self, task: str, part: Subtopology) -> TaskState | None:
        """The state of a task, as the file has it; None: all of its stores are in memory. Raises StreamsError."""
        return self.open_stores(task, part.stores)

    def open_stores(self, task: str, stores: Iterable[Store]) -> TaskState | None:
        kept = self.stores_of(stores)
        return self._opened(task, self._directory.lock(task), kept) if kept else None

    def _opened(self, task: str, directory: TaskDirectory, stores: list[Store]) -> TaskState:
        from broker_streams.state.task_state import TaskState

        try:
            state = TaskState.open(directory, stores, self._now_ms)
        except BaseException:
            directory.release()
            raise
        self._open[task] = state
        self._share_buffer()
        self.report(task, state)
        return state

    def report(self, task: str, state: TaskState) -> None:
        """Log the news of a state."""
        for sentence in state.news:
            _LOG.warning("task %s: %s; they come back from the changelog", task, sentence)
        state.news.clear()

    def _share_buffer(self) -> None:
        whole_bytes = self.settings.state_buffer_bytes
        each_bytes = max(min(BUFFER_BYTES_MIN, whole_bytes), whole_bytes // max(1, len(self._open)))
        for state in self._open.values():
            state.buffer_bytes = each_bytes

    async def fitted(
        self, task: str, state: TaskState, part: Subtopology, logs: Mapping[str, Log]
    ) -> tuple[TaskState, bool]:
        """The state as it can be continued from the changelogs, by its file or by a snapshot; whether its maps are
        others than before. Raises StreamsError.
        """
        is_changed = state.fit(logs)
        self.report(task, state)
        snapshots = self._snapshots()
        if snapshots is None:
            return state, is_changed
        found = await asyncio.to_thread(snapshots.better, task, state.missing(logs), logs, self._now_ms())
        if found is None:
            return state, is_changed
        from broker_streams.state.snapshots import fetch, install

        path = state.directory.path
        fetched = await asyncio.to_thread(fetch, found, path)
        if fetched is None:
            _LOG.warning("task %s: the snapshot %s is damaged; it is not used", task, found.path)
            return state, is_changed
        directory = state.directory
        del self._open[task]
        state.file.close()
        install(fetched, path)
        state = self._opened(task, directory, self.stores_of(part.stores))
        state.fit(logs)
        self.report(task, state)
        return state, True

    def _snapshots(self) -> Snapshots | None:
        settings = self.settings
        if not settings.snapshot_dir:
            return None
        from broker_streams.state.snapshots import Snapshots

        return Snapshots(Path(settings.snapshot_dir), settings.application_id, settings.snapshot_count)

    def close(self, task: str, *, sync: bool = False, discard: bool = False) -> None:
        """Write what is committed, and let the directory go. A file that cannot be written is restored later. With
        `discard` nothing is written: whether the last batch was committed is not known.
        """
        state = self._open.pop(task, None)
        if state is not None:
            try:
                state.close(sync=sync, discard=discard)
            except StreamsError as error:
                _LOG.warning("task %s: %s", task, error)
            self._share_buffer()

    async def clean(self) -> None:
        """Delete the state of tasks that went away, once in state.cleanup.delay.ms."""
        now_ms, delay_ms = self._now_ms(), self.settings.state_cleanup_delay_ms
        if now_ms < self._clean_due_ms:
            return
        self._clean_due_ms = now_ms + max(1, delay_ms)
        for name in await asyncio.to_thread(self._directory.clean, now_ms, delay_ms):
            _LOG.info("the state of task %s is deleted: it was not used for a while", name)

    async def look_after(self, is_active: Callable[[str], bool]) -> None:
        """Delete the state of tasks that went away, and copy the state of active tasks, for ever."""
        while True:
            await self.clean()
            snapshots = self._snapshots()
            if snapshots is not None:
                for task, state in list(self._open.items()):
                    if task != GLOBAL and is_active(task):
                        await self._copy(task, state, snapshots)
            await asyncio.sleep(LOOK_S)

    async def _copy(self, task: str, state: TaskState, snapshots: Snapshots) -> None:
        begun_ms, places = self._copied.get(task, (0, None))
        now_ms, stamp = self._now_ms(), state.file.stamp
        if now_ms - begun_ms < self.settings.snapshot_interval_ms or stamp.places == places or not stamp.places:
            return
        self._copied[task] = now_ms, stamp.places
        try:
            # A task that is closed meanwhile waits for the copy.
            await asyncio.to_thread(snapshots.take, state.file, task)
        except Exception as error:
            _LOG.warning("task %s: no snapshot in %s: %s", task, self.settings.snapshot_dir, error)


def _has_lmdb(settings: HostSettings) -> bool:
    """Raises StreamsError: state.dir was given, and nothing can be kept there."""
    try:
        import lmdb as _lmdb
    except ImportError:
        text = "lmdb is not installed (pip install 'broker-cy[streams]')"
        if settings.is_state_dir_given:
            raise StreamsError(f"state.dir is {settings.state_dir}, but {text}") from None
        _LOG.warning("%s: stores are in memory, and each start restores all of them", text)
        return False
    del _lmdb
    return True
