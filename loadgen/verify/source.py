"""The verifier's access to a cluster, with retries after retriable errors.

It waits for an election, a broker restart or a new connection; any other error ends the verification.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import gevent

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from loadgen.net.cluster import FETCH_BY_NAME, LATEST, Cluster, Refused
from loadgen.net.connection import Address, NetError

CLIENT_ID: Final = "broker-load-verify"
RETRY_S: Final = 0.05
FETCH_WAIT_MS: Final = 500
FETCH_BYTES_MAX: Final = 16 << 20
PARTITION_BYTES_MAX: Final = 4 << 20
_PASSING: Final = frozenset({
    ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR,
})  # fmt: skip
T = TypeVar("T")


class SourceError(Exception):
    """The partitions cannot be read; the text says why."""


class Passing(SourceError):
    """Another attempt may succeed."""


class Source:
    """The partitions of a cluster. Use it with `with`. Every call raises SourceError.

    `timeout_s` bounds the wait for each answer, and how long a call is repeated while leaders are being elected.
    """

    def __init__(self, bootstrap: Sequence[Address], timeout_s: float) -> None:
        self._cluster, self._timeout_s = Cluster(bootstrap, CLIENT_ID, timeout_s), timeout_s

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *exc: object) -> None:
        self._cluster.close()

    def leaders(self, topic: str) -> dict[int, list[int]]:
        """Return the partitions that each broker leads, when all have a leader."""
        found: dict[int, list[int]] = {}
        for each in self.patiently(lambda: self._cluster.partitions(topic)):
            found.setdefault(each.leader, []).append(each.number)
        return found

    def offsets(self, topic: str, which: int = LATEST, *, read_committed: bool = False) -> dict[int, int]:
        """Return the offset of each partition at LATEST (for read_committed, the last stable one) or EARLIEST."""

        def ask() -> dict[int, int]:
            numbers = [each.number for each in self._cluster.partitions(topic)]
            return self._cluster.offsets(topic, numbers, which, read_committed=read_committed)

        return self.patiently(ask)

    def fetch(
        self, leader: int, topic: str, positions: Mapping[int, int], *, read_committed: bool
    ) -> dict[int, messages.FetchResponse.PartitionData]:
        """Fetch once from these offsets of partitions that a broker leads. The caller checks their error codes."""
        part = messages.FetchRequest.FetchPartition
        request = messages.FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=int(read_committed),
            session_epoch=-1,
            topics=[
                messages.FetchRequest.FetchTopic(
                    topic=topic,
                    partitions=[
                        part(partition=number, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES_MAX)
                        for number, offset in positions.items()
                    ],
                )
            ],
        )

        def ask() -> messages.FetchResponse:
            return self._cluster.node(leader).call(request, messages.FetchResponse, at_most=FETCH_BY_NAME)

        answer = translated(ask)
        check_code(answer.error_code, f"Fetch from broker {leader}")
        return {each.partition_index: each for topics in answer.responses for each in topics.partitions}

    def patiently(self, call: Callable[[], T]) -> T:
        """Retry `call` after retriable errors for at most `timeout_s`; then raise a SourceError."""
        until_s = time.monotonic() + self._timeout_s
        while True:
            try:
                return translated(call)
            except Passing as error:
                if time.monotonic() >= until_s:
                    raise SourceError(f"{error} (given up after {self._timeout_s:g} s)") from error
            gevent.sleep(RETRY_S)


def translated(call: Callable[[], T]) -> T:
    """Return the result of `call`. Turns its exceptions into Passing or SourceError."""
    try:
        return call()
    except NetError as error:
        if error.name == "UNSUPPORTED_VERSION":
            raise SourceError(str(error)) from error
        raise Passing(str(error)) from error
    except Refused as error:
        raise _translated(error) from error


def check_code(code: int, what: str) -> None:
    """Raise Passing or SourceError unless an answer's code is 0."""
    if code:
        raise _translated(Refused(code, what))


def _translated(error: Refused) -> SourceError:
    return Passing(str(error)) if error.code in _PASSING else SourceError(str(error))
