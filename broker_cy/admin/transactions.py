"""Producers and transactions: active producers, open and hanging transactions, and aborting them (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.admin.caller import Brokers, Caller, Leaders, Outcome, every_broker
from broker_cy.admin.coordinators import Coordinators
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of
from broker_cy.client.pool import Peer
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

# Partitions, and transactional ids, of one request.
PARTITIONS_MAX = 500
TRANSACTIONS_MAX = 500
# The default of Kafka's transaction.max.timeout.ms: a coordinator lets no transaction stay open for longer.
MAX_TIMEOUT_MS = 900_000
# States of a transactional id whose partitions get no further marker.
_ENDED = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A partition leader's state of a producer. `txn_start_offset` is that of its open transaction, else None.

    Times are ms since 1970; the coordinator epoch is -1 if no transaction of the producer has ended here.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    txn_start_offset: int | None


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id, as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id. `start_ms` is None while it has no open transaction."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """An open transaction that no coordinator will end: consumers of committed records wait for it forever.

    `idle_ms`: time since the producer's last write.
    """

    partition: TopicPartition
    producer: ProducerState
    transactional_id: str | None
    idle_ms: int


class TransactionCalls:
    """`client.transactions`."""

    def __init__(self, caller: Caller, coordinators: Coordinators) -> None:
        self._caller = caller
        self._coordinators = coordinators

    async def producers(
        self, partitions: Iterable[TopicPartition]
    ) -> Outcome[TopicPartition, tuple[ProducerState, ...]]:
        """The active producers of each partition, by producer id, as its leader knows them."""

        async def send(
            peer: Peer, keys: list[TopicPartition], deadline: Deadline
        ) -> dict[TopicPartition, tuple[ProducerState, ...] | Problem]:
            by_topic: dict[str, list[int]] = {}
            for key in keys:
                by_topic.setdefault(key.topic, []).append(key.partition)
            request = messages.DescribeProducersRequest(
                topics=[
                    messages.DescribeProducersRequest.TopicRequest(name=name, partition_indexes=indexes)
                    for name, indexes in by_topic.items()
                ]
            )
            answer, _ = await self._caller.pool.ask(peer, request, messages.DescribeProducersResponse, deadline)
            return {
                TopicPartition(topic.name, part.partition_index): problem_of(part.error_code, part.error_message)
                or tuple(sorted(map(_producer, part.active_producers), key=lambda each: each.producer_id))
                for topic in answer.topics
                for part in topic.partitions
            }

        return await self._caller.spread(
            partitions,
            Leaders(self._caller.metadata),
            send,
            api="DescribeProducers",
            name=lambda key: f"partition {key}",
            chunk=PARTITIONS_MAX,
        )

    async def list_all(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> Outcome[int, tuple[TransactionListing, ...]]:
        """The transactional ids that each broker coordinates, by broker id.

        `states`: Kafka's names (Ongoing, PrepareCommit ...); `longer_than_ms`: open for longer (KIP-994); `pattern`:
        a regular expression of the id (KIP-1152). ClientError if a state does not exist.
        """
        deadline = self._caller.deadline()
        wanted_states, wanted_ids = list(states), list(producer_ids)
        at_least = 2 if pattern is not None else 1 if longer_than_ms >= 0 else 0

        async def send(
            peer: Peer, keys: list[int], deadline: Deadline
        ) -> dict[int, tuple[TransactionListing, ...] | Problem]:
            request = messages.ListTransactionsRequest(
                state_filters=wanted_states,
                producer_id_filters=wanted_ids,
                duration_filter=longer_than_ms,
                transactional_id_pattern=pattern,
            )
            answer, _ = await self._caller.pool.ask(
                peer, request, messages.ListTransactionsResponse, deadline, at_least=at_least
            )
            (key,) = keys
            if answer.unknown_state_filters:
                names = ", ".join(answer.unknown_state_filters)
                raise ClientError(
                    Failure.INVALID,
                    f"the broker does not know the state {names}",
                    broker=peer.name,
                    api="ListTransactions",
                )
            return {
                key: problem_of(answer.error_code)
                or tuple(
                    TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, key)
                    for each in answer.transaction_states
                )
            }

        return await self._caller.spread(
            await every_broker(self._caller, deadline),
            Brokers(self._caller.metadata),
            send,
            api="ListTransactions",
            name=lambda key: f"broker {key}",
            chunk=1,
            deadline=deadline,
        )

    async def describe(self, transactional_ids: Iterable[str]) -> Outcome[str, TransactionDescription]:
        """State, producer, timeout and partitions of transactional ids."""

        async def send(peer: Peer, keys: list[str], deadline: Deadline) -> dict[str, TransactionDescription | Problem]:
            request = messages.DescribeTransactionsRequest(transactional_ids=keys)
            answer, _ = await self._caller.pool.ask(peer, request, messages.DescribeTransactionsResponse, deadline)
            coordinator = -1 if peer.node_id is None else peer.node_id
            return {
                each.transactional_id: problem_of(each.error_code) or _description(each, coordinator)
                for each in answer.transaction_states
            }

        return await self._caller.spread(
            transactional_ids,
            self._coordinators,
            send,
            api="DescribeTransactions",
            name=lambda key: f"transactional id {key}",
            chunk=TRANSACTIONS_MAX,
        )

    async def find_hanging(
        self, partitions: Iterable[TopicPartition], now_ms: int, *, max_timeout_ms: int = MAX_TIMEOUT_MS
    ) -> tuple[HangingTransaction, ...]:
        """Open transactions of `partitions` whose producer has been idle for longer than a transaction may be open, and
        which their coordinator does not know. Raises ClientError.
        """
        open_ones: list[tuple[TopicPartition, ProducerState]] = [
            (key, producer)
            for key, producers in (await self.producers(partitions)).whole().items()
            for producer in producers
            if producer.txn_start_offset is not None and now_ms - producer.last_timestamp_ms > max_timeout_ms
        ]
        if not open_ones:
            return ()
        ids = sorted({producer.producer_id for _, producer in open_ones})
        listed = (await self.list_all(producer_ids=ids)).whole()
        names = {each.producer_id: each.transactional_id for listing in listed.values() for each in listing}
        described = await self.describe(names.values())
        hanging = []
        for key, producer in open_ones:
            name = names.get(producer.producer_id)
            known = None if name is None else described.found.get(name)
            if name is not None and known is None:
                error = described.failed[name]
                if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise error
            if known is None or known.state in _ENDED or key not in known.partitions:
                hanging.append(HangingTransaction(key, producer, name, now_ms - producer.last_timestamp_ms))
        return tuple(hanging)

    async def abort(self, partition: TopicPartition, producer: ProducerState) -> None:
        """End the open transaction of `producer` in `partition` with an abort marker, without its coordinator.

        Only for hanging transactions: a coordinator would not learn that a transaction it knows was ended. Raises
        ClientError.
        """
        if producer.txn_start_offset is None:
            raise ClientError(
                Failure.INVALID,
                f"producer {producer.producer_id} has no open transaction there",
                what=f"partition {partition}",
            )
        await self._write_abort(partition, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch)

    async def _write_abort(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        async def send(
            peer: Peer, keys: list[TopicPartition], deadline: Deadline
        ) -> dict[TopicPartition, bool | Problem]:
            marker = messages.WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=False,
                # A producer that never had a marker here has no coordinator epoch: any epoch is newer.
                coordinator_epoch=max(0, coordinator_epoch),
                topics=[
                    messages.WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                        name=partition.topic, partition_indexes=[partition.partition]
                    )
                ],
            )
            request = messages.WriteTxnMarkersRequest(markers=[marker])
            answer, _ = await self._caller.pool.ask(peer, request, messages.WriteTxnMarkersResponse, deadline)
            return {
                TopicPartition(topic.name, part.partition_index): problem_of(part.error_code) or True
                for each in answer.markers
                for topic in each.topics
                for part in topic.partitions
            }

        outcome = await self._caller.spread(
            [partition],
            Leaders(self._caller.metadata),
            send,
            api="WriteTxnMarkers",
            name=lambda key: f"producer {producer_id} in partition {key}",
            chunk=1,
        )
        outcome.whole()


def _producer(each: messages.DescribeProducersResponse.ProducerState) -> ProducerState:
    return ProducerState(
        each.producer_id,
        each.producer_epoch,
        each.last_sequence,
        each.last_timestamp,
        each.coordinator_epoch,
        None if each.current_txn_start_offset < 0 else each.current_txn_start_offset,
    )


def _description(
    each: messages.DescribeTransactionsResponse.TransactionState, coordinator_id: int
) -> TransactionDescription:
    return TransactionDescription(
        each.transactional_id,
        coordinator_id,
        each.transaction_state,
        each.producer_id,
        each.producer_epoch,
        each.transaction_timeout_ms,
        None if each.transaction_start_time_ms < 0 else each.transaction_start_time_ms,
        tuple(
            sorted(TopicPartition(topic.topic, partition) for topic in each.topics for partition in topic.partitions)
        ),
    )
