"""Ends transactions in the partitions of this broker: with a commit or abort marker in each, and for
`__consumer_offsets` with the group coordinator's offsets of the transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from broker_cy.coordinator.routing import OFFSETS_TOPIC
from broker_cy.core.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from broker_cy.coordinator_services.group_service import GroupService
    from broker_cy.core.clock import Clock
    from broker_cy.partitions.openings import Openings
    from broker_cy.replica.partition_table import PartitionTable

# As in Kafka, the transaction coordinator gets the error codes of a partition for a group coordinator that is not
# ready.
_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)

Place = tuple[str, int]


class TxnMarkers:
    """Used by the transaction coordinator and by WriteTxnMarkers."""

    def __init__(
        self,
        partitions: PartitionTable,
        groups: GroupService,
        openings: Openings,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        timeout_ms: int,
    ) -> None:
        """`timeout_ms` is request.timeout.ms: how long markers are waited for."""
        self._partitions = partitions
        self._groups = groups
        self._openings = openings
        self._clock = clock
        self._loop = loop
        self._timeout_s = timeout_ms / 1000

    def write(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        partitions: Sequence[Place],
        transaction_version: int,
    ) -> asyncio.Future[dict[Place, ErrorCode]]:
        """Append a marker to each of `partitions`, given as (topic, index). The future, done once all are written, has
        an ErrorCode for each: NONE, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, UNKNOWN_TOPIC_OR_PARTITION
        (also for one that is offline, as in Kafka), NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR,
        UNKNOWN_SERVER_ERROR for a negative producer id or epoch; as in Kafka, REQUEST_TIMED_OUT for a marker that was
        not committed in time, but may be later.
        """
        done: asyncio.Future[dict[Place, ErrorCode]] = self._loop.create_future()
        results: dict[Place, ErrorCode] = {}
        # In their order, so that a run can be repeated.
        places = dict.fromkeys(partitions)

        def take(place: Place, code: ErrorCode) -> None:
            if done.done():
                return
            results[place] = code
            if len(results) == len(places):
                timer.cancel()
                done.set_result(results)

        def expire() -> None:
            if not done.done():
                done.set_result(dict.fromkeys(places, ErrorCode.REQUEST_TIMED_OUT) | results)

        def finish(place: Place, future: asyncio.Future[Any]) -> None:
            take(place, _code_of(future))

        def begin(place: Place) -> None:
            try:
                written = self._append(
                    place, producer_id, producer_epoch, coordinator_epoch, commit, transaction_version
                )
            except KafkaError as error:
                take(place, ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _NOT_READY else error.code)
                return
            written.add_done_callback(partial(finish, place))

        if not places:
            done.set_result(results)
            return done
        timer = self._loop.call_later(self._timeout_s, expire)
        for place in places:
            partition = self._partitions.get(*place)
            if partition is not None and partition.unopened:
                self._openings.when_open([partition], partial(begin, place))
            else:
                begin(place)
        return done

    def _append(
        self,
        place: Place,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> asyncio.Future[Any]:
        """A future of the marker's offset, or of the group coordinator's ErrorCode. Raises KafkaError."""
        topic, index = place
        partition = self._partitions.get(topic, index)
        if producer_id < 0 or producer_epoch < 0:
            # Kafka fails when it creates such a marker, before it looks up the partition.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if partition is None or partition.offline is not None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic == OFFSETS_TOPIC:
            return self._groups.end_transaction(
                index, producer_id, producer_epoch, coordinator_epoch, commit, transaction_version
            )
        return partition.append_marker(
            producer_id, producer_epoch, coordinator_epoch, commit, self._clock.wall_ms(), transaction_version
        )


def _code_of(future: asyncio.Future[Any]) -> ErrorCode:
    if future.cancelled():
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    error = future.exception()
    if error is not None:
        return error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    code = future.result()
    if not isinstance(code, ErrorCode):
        return ErrorCode.NONE
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code
