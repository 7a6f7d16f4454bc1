"""One fetch of a member of a share group: it reads its share partitions, acquires records, or waits for them.

Reading never waits for the disk on the loop: a worker reads what left the page cache, and checks what existed when the
broker started, and then the fetch looks again. Records are acquired only after all of their bytes are in memory, in the
turn in which the answer is sent: no other fetch comes between, so that no lock on the share partition is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.share import acquiring
from broker_cy.share.acquired_slices import batches_of, is_in_memory, slices
from broker_cy.share.sessions import TopicPartition, bytes_each
from broker_cy.share.share_partitions import ShareKey
from broker_cy.share_service.advance_wait import count_fetch, fetch_bound
from broker_cy.storage.errors import ColdRead, OffsetOutOfRange, StorageError
from broker_cy.storage.lookups import confined
from broker_cy.storage.page_cache import warm, warm_path
from broker_cy.storage.unverified import note_verified, unverified_part, verify_all

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.replica.partition import Partition
    from broker_cy.share.read_batches import ReadBatches
    from broker_cy.share.settings import ShareGroupConfig
    from broker_cy.share.share_partition import SharePartition
    from broker_cy.storage.log_slice import LogSlice

# Times that a look is repeated after a worker read the missing data; after that, the loop waits for the disk.
COLD_LOOKS_MAX: Final = 16


class FetchRequest(NamedTuple):
    """The request of a member. `topics` are in the order in which they are served."""

    group_id: str
    member_id: str
    topics: list[TopicPartition]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    is_record_limit: bool
    is_live: Callable[[], bool]
    """Whether the session of the request still exists. Without it nothing is acquired."""
    charge: Callable[[int], int] | None = None
    """Counts the bytes of an answer, and returns for how many milliseconds a quota throttles the client."""


class Fetched(NamedTuple):
    """The result of one share partition: acquired (first, last, delivery count), and the bytes that contain them."""

    acquired: list[tuple[int, int, int]]
    parts: list[LogSlice]
    error: KafkaError | None = None


def failed(error: KafkaError) -> Fetched:
    return Fetched([], [], error)


class FetchResult(NamedTuple):
    """`throttle_ms` > 0: a quota throttles the client, which got nothing."""

    found: dict[TopicPartition, Fetched]
    throttle_ms: int = 0
    from_disk: bool = False


class _Read(NamedTuple):
    """The result of a look into one share partition."""

    topic: TopicPartition
    share: SharePartition
    partition: Partition
    offset: int
    bound: int
    part: LogSlice | None


class _Found(NamedTuple):
    read: _Read
    batches: ReadBatches
    part: LogSlice


class Service(Protocol):
    """The share service, as a fetch sees it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def cold_reader(self) -> Executor | None: ...
    @property
    def is_stopping(self) -> bool: ...
    def now_ms(self) -> int: ...
    def config_of(self, group_id: str) -> ShareGroupConfig: ...
    async def opened(self, topics: Iterable[TopicPartition]) -> None: ...
    def obtain(self, key: ShareKey) -> tuple[SharePartition, Partition]: ...
    def start_moved(self, key: ShareKey) -> None: ...
    def reload(self, key: ShareKey) -> None: ...
    def acquired(self, key: ShareKey, share: SharePartition, acquired: Sequence[tuple[int, int, int]]) -> None: ...
    def wait(self, fetch: ShareFetch, keys: Sequence[ShareKey]) -> bool: ...
    def end_wait(self, fetch: ShareFetch, keys: Sequence[ShareKey]) -> None: ...


Work = tuple[Callable[..., Any], tuple[Any, ...]]


class Pause:
    """`over` is done after `wait_ms`, or when the connection ends or the broker stops."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wait_ms: int) -> None:
        self.over: asyncio.Future[None] = loop.create_future()
        self._timer = loop.call_later(wait_ms / 1000, self.hurry)

    def hurry(self) -> None:
        self._timer.cancel()
        if not self.over.done():
            self.over.set_result(None)


class ShareFetch:
    def __init__(self, service: Service, request: FetchRequest) -> None:
        self.request = request
        self._service = service
        self._loop = service.loop
        self._deadline_s = self._loop.time() + request.max_wait_ms / 1000
        self._keys = {topic: ShareKey(request.group_id, topic) for topic in request.topics}
        self._errors: dict[TopicPartition, KafkaError] = {}
        self._woken: asyncio.Future[None] | None = None
        self._is_over = self._has_read_error = False
        self._from_disk = False
        self._config = service.config_of(request.group_id)

    # ---- from the service

    def resume(self) -> None:
        """Look again: records may have become available."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def hurry(self) -> None:
        """Answer with what is available: the broker stops, the session has ended, or a share partition was lost."""
        self._is_over = True
        self.resume()

    def fail(self, topic: TopicPartition, error: KafkaError) -> None:
        """A share partition could not be loaded."""
        self._errors[topic] = error
        self.resume()

    # ---- the request

    async def run(self) -> FetchResult:
        request = self.request
        if not request.topics or request.max_records == 0 or request.max_bytes == 0:
            return FetchResult({})
        await self._service.opened(request.topics)
        cold_looks = 0
        while True:
            found = self._look(is_last=self._is_last(), is_confined=cold_looks < COLD_LOOKS_MAX)
            if isinstance(found, FetchResult):
                return found
            if found is None:
                if not await self._wait():
                    self._is_over = True
                continue
            for function, arguments in found:
                await self._in_worker(function, arguments)
            if found:
                cold_looks += 1
                self._from_disk = True
            else:
                await asyncio.sleep(0)

    def _is_last(self) -> bool:
        return (
            self._is_over
            or self._loop.time() >= self._deadline_s
            or self._service.is_stopping
            or not self.request.is_live()
            or len(self._errors) == len(self._keys)
        )

    async def _in_worker(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            result = await self._loop.run_in_executor(self._service.cold_reader, function, *arguments)
        except (OSError, StorageError):
            # The next look meets the same error.
            return
        if function is verify_all:
            note_verified(result)

    async def _wait(self) -> bool:
        """Wait until there is something to look at; False if too many wait already."""
        keys = [key for topic, key in self._keys.items() if topic not in self._errors]
        if not self._service.wait(self, keys):
            return False
        self._woken = self._loop.create_future()
        timer = self._loop.call_at(self._deadline_s, self.resume)
        try:
            await self._woken
        finally:
            timer.cancel()
            self._woken = None
            self._service.end_wait(self, keys)
        return True

    # ---- one look; nothing else runs meanwhile

    def _look(self, *, is_last: bool, is_confined: bool) -> FetchResult | list[Work] | None:
        """Return the result, or work for a worker before the next look, or None to wait for more records. Without any
        work, other requests have their turn before the next look.
        """
        reads = confined(self._read_all) if is_confined else self._read_all()
        if isinstance(reads, ColdRead):
            return [_warming(reads)]
        size = sum(read.part.size for read in reads if read.part is not None)
        if not is_last and not self._has_read_error and size < self.request.min_bytes:
            return None
        walked = confined(self._walk, reads) if is_confined else self._walk(reads)
        if isinstance(walked, ColdRead):
            return [_warming(walked)]
        if is_confined and (work := _work_before(walked)):
            return work
        result = self._acquire(reads, walked)
        has_result = any(each.acquired or each.error for each in result.found.values())
        if is_last or size == 0 or has_result or result.throttle_ms:
            return result
        # Records of aborted transactions were archived, or gaps were found to be empty.
        is_ahead = any(each.read.share.next_fetch_offset() != each.read.offset for each in walked)
        return [] if is_ahead else None

    def _read_all(self) -> list[_Read]:
        """Read each share partition that has room. Raises ColdRead."""
        if not self.request.is_live():
            return []
        ready: list[tuple[TopicPartition, SharePartition, Partition]] = []
        for topic, key in self._keys.items():
            if topic in self._errors:
                continue
            try:
                share, partition = self._service.obtain(key)
            except KafkaError as error:
                self._errors[topic] = error
                continue
            before = share.start_offset
            share.move_log_start(partition.log.log_start_offset)
            if share.start_offset != before:
                self._service.start_moved(key)
            if share.is_active and not share.can_acquire() and not share.unfinished_records:
                self._service.reload(key)
            elif share.is_active and share.can_acquire():
                ready.append((topic, share, partition))
        reads: list[_Read] = []
        has_records = False
        for (topic, share, partition), limit in zip(
            ready, bytes_each(max(0, self.request.max_bytes), len(ready)) if ready else [], strict=True
        ):
            # The state machine, as that of Kafka 4.3.1, may have available records before the start of the log, if that
            # is within a batch. A read from there would fail, and the group would read no further.
            offset = max(share.next_fetch_offset(), share.start_offset)
            bound = fetch_bound(partition, self._config.is_read_committed)
            part = None
            if offset < bound:
                try:
                    # KIP-74: the first record set of an answer is whole, however small the limits.
                    part = partition.log.read_slice(offset, bound, limit, not has_records)
                except OffsetOutOfRange:
                    # The log ends before it. As in Kafka, clients do not see this.
                    pass
                except ColdRead:
                    raise
                except (OSError, StorageError) as error:
                    self._storage_failed(topic, partition, error)
                    continue
            has_records = has_records or part is not None
            reads.append(_Read(topic, share, partition, offset, bound, part))
        return reads

    def _walk(self, reads: list[_Read]) -> list[_Found]:
        """Find the batches that may be acquired. Raises ColdRead."""
        walked: list[_Found] = []
        for read in reads:
            if read.part is None:
                continue
            enough = max(read.share.end_offset, read.offset) + self.request.max_records
            try:
                batches, part = batches_of(
                    read.partition.log, read.part, read.offset, read.bound, enough, self._config.is_read_committed
                )
            except ColdRead:
                raise
            except (OSError, StorageError) as error:
                self._storage_failed(read.topic, read.partition, error)
                continue
            walked.append(_Found(read, batches, part))
        return walked

    def _storage_failed(self, topic: TopicPartition, partition: Partition, error: BaseException) -> None:
        partition.read_failed(error)
        self._errors[topic] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        self._has_read_error = True

    def _acquire(self, reads: list[_Read], walked: list[_Found]) -> FetchResult:
        request, service = self.request, self._service
        # As in Kafka, partitions that could have been read are named even without records.
        found = {read.topic: Fetched([], []) for read in reads}
        found |= {topic: failed(error) for topic, error in self._errors.items()}
        if request.charge is not None and walked:
            throttle_ms = request.charge(sum(each.part.size for each in walked))
            if throttle_ms:
                return FetchResult({}, throttle_ms)
        left = request.max_records
        now_ms = service.now_ms()
        for read, batches, part in walked:
            before = read.share.start_offset
            acquired = acquiring.acquire(
                read.share,
                request.member_id,
                request.is_record_limit,
                request.batch_size,
                left,
                read.offset,
                batches,
                now_ms,
            )
            if read.share.start_offset != before:
                self._service.start_moved(self._keys[read.topic])
            left -= sum(last - first + 1 for first, last, _ in acquired)
            found[read.topic] = Fetched(acquired, slices(part, batches, acquired))
            if acquired:
                count_fetch(read.partition, sum(each.size for each in found[read.topic].parts))
                service.acquired(self._keys[read.topic], read.share, acquired)
        return FetchResult(found, 0, self._from_disk)


def _warming(missing: ColdRead) -> Work:
    return warm_path, (missing.path, missing.position, missing.size)


def _work_before(walked: list[_Found]) -> list[Work]:
    """Return the work of a worker before these bytes can be sent."""
    unchecked = [part for each in walked if (part := unverified_part(each.read.partition.log, each.part)) is not None]
    if unchecked:
        return [(verify_all, (unchecked,))]
    return [
        (warm, (each.part.fd, each.part.position, each.part.size, True))
        for each in walked
        if not is_in_memory(each.part)
    ]
