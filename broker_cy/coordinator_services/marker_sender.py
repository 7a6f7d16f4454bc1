"""Sends the markers of the transaction coordinator to the leaders of their partitions: to this broker's partitions
directly, to other brokers by WriteTxnMarkers.

A partition whose leader cannot be reached, or is another one by now, gets an error; the coordinator tries it again
after a while, with the leader of then. A marker may therefore be written twice, which changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker_cy.coordinator_services.txn_runtime import MarkerWriter, Results
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import NO_LEADER
from broker_cy.network.broker_calls import Batches, Caller
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.coordinator.txn.state import TopicPartition
    from broker_cy.metadata.image import ImageDelta, MetadataImage


class Marker(NamedTuple):
    """The markers of one transaction for the partitions of one broker."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


class MarkerSender:
    """`local` writes into the partitions of this broker (TxnMarkers)."""

    def __init__(
        self,
        node_id: int,
        loop: asyncio.AbstractEventLoop,
        image: Callable[[], MetadataImage],
        local: MarkerWriter,
        calls: Caller,
    ) -> None:
        self._node_id = node_id
        self._loop = loop
        self._image = image
        self._local = local
        self._calls = calls
        self._batches: Batches[Marker, Results] = Batches(loop, self._send, lambda marker: marker.producer_id)

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata have changed."""
        self._batches.follow(delta, image)

    async def close(self) -> None:
        await self._batches.close()

    def write(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        partitions: Sequence[TopicPartition],
        transaction_version: int,
    ) -> asyncio.Future[Results]:
        """Have a marker written to each of `partitions`. The future has an ErrorCode for each: those of
        TxnMarkers.write, LEADER_NOT_AVAILABLE, and the errors of a request that failed.
        """
        marker = Marker(producer_id, producer_epoch, coordinator_epoch, commit, tuple(partitions), transaction_version)
        if len(self._image().brokers) <= 1:
            return self._write_here(marker)
        by_leader = self._by_leader(partitions)
        if set(by_leader) == {self._node_id}:
            return self._write_here(marker)
        results: Results = dict.fromkeys(by_leader.pop(NO_LEADER, ()), ErrorCode.LEADER_NOT_AVAILABLE)
        done: asyncio.Future[Results] = self._loop.create_future()
        waiting = set(by_leader)

        def finish(leader: int, asked: list[TopicPartition], answer: asyncio.Future[Results]) -> None:
            results.update(_results_of(asked, answer))
            waiting.discard(leader)
            if not waiting and not done.done():
                done.set_result(results)

        for leader, asked in by_leader.items():
            part = marker._replace(partitions=tuple(asked))
            answer = self._write_here(part) if leader == self._node_id else self._batches.ask(leader, part)
            answer.add_done_callback(partial(finish, leader, asked))
        if not by_leader:
            done.set_result(results)
        return done

    def _by_leader(self, partitions: Sequence[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by their leaders; NO_LEADER for those that have none."""
        image = self._image()
        found: dict[int, list[TopicPartition]] = {}
        for name, index in partitions:
            topic = image.topics.by_name(name)
            partition = topic.partitions.get(index) if topic is not None else None
            found.setdefault(partition.leader if partition is not None else NO_LEADER, []).append((name, index))
        return found

    def _write_here(self, marker: Marker) -> asyncio.Future[Results]:
        try:
            return self._local.write(*marker)
        except KafkaError as error:
            failed: asyncio.Future[Results] = self._loop.create_future()
            failed.set_exception(error)
            return failed

    async def _send(self, broker_id: int, markers: list[Marker]) -> list[Results]:
        """Send WriteTxnMarkers; each producer id occurs once."""
        request = messages.WriteTxnMarkersRequest(markers=[_entry(marker) for marker in markers])
        response = await self._calls.ask(broker_id, request, messages.WriteTxnMarkersResponse, at_least=1)
        by_producer: dict[int, Results] = {}
        for answer in response.markers:
            results = by_producer.setdefault(answer.producer_id, {})
            for topic in answer.topics:
                for each in topic.partitions:
                    results[topic.name, each.partition_index] = ErrorCode(each.error_code)
        return [by_producer.get(marker.producer_id, {}) for marker in markers]


def _entry(marker: Marker) -> messages.WriteTxnMarkersRequest.WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for name, index in marker.partitions:
        topics.setdefault(name, []).append(index)
    return messages.WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.commit,
        topics=[
            messages.WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _results_of(asked: list[TopicPartition], answer: asyncio.Future[Results]) -> Results:
    """The code of each partition; one that the answer does not have is as good as unwritten."""
    if answer.cancelled():
        return dict.fromkeys(asked, ErrorCode.NETWORK_EXCEPTION)
    error = answer.exception()
    if error is not None:
        return dict.fromkeys(asked, error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR)
    found = answer.result()
    return {place: found.get(place, ErrorCode.UNKNOWN_SERVER_ERROR) for place in asked}
