"""Share partitions for tests, with short calls of their operations."""

from __future__ import annotations

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.share import acknowledging, acquiring
from broker_cy.share.read_batches import ReadBatches
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.state_write import AcknowledgeError, StateWrite

LOCK_MS = 100
LIMIT = 5
ACCEPT, RELEASE, REJECT, RENEW = b"\x01", b"\x02", b"\x03", b"\x04"
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
Batch = tuple[int, int, int, int]


def partition(
    *batches: Batch, start: int = 0, limit: int = LIMIT, records_max: int = 200, is_renew_enabled: bool = True
) -> SharePartition:
    made = SharePartition(3)
    made.configure(LOCK_MS, limit, records_max, is_renew_enabled)
    assert made.begin()
    made.load(2, start, batches)
    return made


def acquire(
    share: SharePartition,
    *bounds: tuple[int, int],
    member: str = "a",
    most: int = 500,
    now: int = 0,
    is_record_limit: bool = False,
    size: int = 500,
    fetch: int | None = None,
    aborted: tuple[int, ...] = (),
) -> list[tuple[int, int, int]]:
    offset = share.next_fetch_offset() if fetch is None else fetch
    return acquiring.acquire(share, member, is_record_limit, size, most, offset, ReadBatches(bounds, aborted), now)


def acknowledge(
    share: SharePartition, first: int, last: int, types: bytes, member: str = "a", now: int = 0
) -> StateWrite | None:
    return acknowledging.acknowledge(share, member, [(first, last, types)], now)


def done(share: SharePartition, write: StateWrite | None) -> bool:
    assert write is not None
    return acknowledging.written(share, write)


def undone(share: SharePartition, write: StateWrite | None) -> bool:
    assert write is not None
    return acknowledging.failed(share, write)


def states(share: SharePartition) -> list[tuple[int, int, int, int]]:
    """Return (first offset, last offset, state, delivery count) of each run."""
    return [run[:4] for run in share.in_flight()]


def refused(code: ErrorCode, share: SharePartition, *batches: tuple[int, int, bytes], member: str = "a") -> None:
    before = share.in_flight()
    with pytest.raises(AcknowledgeError) as error:
        acknowledging.acknowledge(share, member, list(batches), 0)
    assert error.value.code == code
    assert share.in_flight() == before
