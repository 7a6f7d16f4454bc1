"""Transactional ids, controlled by scripts."""

from __future__ import annotations

from typing import Any

from broker_cy.wire import messages
from tests.compat.differential.script import PATIENCE_S, Run
from tests.support.wait import until

FIND_VERSION, INIT_VERSION, ADD_VERSION, END_VERSION = 4, 5, 3, 4
BATCHED = 4
BUMPS = 5
TIMEOUT_MS = 60_000
# NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS.
LATER = (14, 15, 16, 51)
Producer = tuple[int, int]
NOBODY: Producer = (1 << 40, 0)


class Transactions:
    """A transactional id of a script: its requests, and requests that are repeated until they succeed."""

    def __init__(self, run: Run, suffix: str = "") -> None:
        self.run = run
        self.id = run.name + suffix
        request = messages.FindCoordinatorRequest(key_type=1, coordinator_keys=[self.id])

        def found() -> bool:
            return bool(run.quietly(request, FIND_VERSION).coordinators[0].error_code == 0)

        def loaded() -> bool:
            return run.quietly(self.end(NOBODY, True), END_VERSION).error_code not in LATER

        until(found, "a transaction coordinator", PATIENCE_S)
        until(loaded, "the transaction coordinator to be loaded", PATIENCE_S)

    def init(self, expected: Producer = (-1, -1), timeout_ms: int = TIMEOUT_MS) -> messages.InitProducerIdRequest:
        return messages.InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )

    def add(
        self, producer: Producer, *partitions: tuple[str, int], version: int = ADD_VERSION, verify: bool = False
    ) -> messages.AddPartitionsToTxnRequest:
        topics = [
            messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[index])
            for topic, index in partitions
        ]
        if version >= BATCHED:
            transaction = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=self.id,
                producer_id=producer[0],
                producer_epoch=producer[1],
                verify_only=verify,
                topics=topics,
            )
            return messages.AddPartitionsToTxnRequest(transactions=[transaction])
        return messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics,
        )

    def end(self, producer: Producer, commit: bool) -> messages.EndTxnRequest:
        return messages.EndTxnRequest(
            transactional_id=self.id, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )

    def producer(self) -> Producer:
        """Begin a transaction, once the coordinator is ready."""

        def begun() -> Any:
            answer = self.run.quietly(self.init(), INIT_VERSION)
            assert answer.error_code in (0, *LATER), answer
            return answer if answer.error_code == 0 else None

        answer = until(begun, "a producer id for the transactional id", PATIENCE_S)
        self.run.names.give_number("producer_id", "producer", answer.producer_id)
        return answer.producer_id, answer.producer_epoch

    def settle(self) -> Any:
        """Wait until no transaction of the id is being ended; returns its description."""

        def settled() -> Any:
            request = messages.DescribeTransactionsRequest(transactional_ids=[self.id])
            (found,) = self.run.quietly(request, 0).transaction_states
            return None if found.transaction_state.startswith("Prepare") else found

        return until(settled, "the markers", PATIENCE_S)

    def current(self) -> Producer:
        """Return the coordinator's description of the producer, once it is settled."""
        found = self.settle()
        return found.producer_id, found.producer_epoch

    def added(self, producer: Producer, *partitions: tuple[str, int], version: int = ADD_VERSION) -> None:
        """Add partitions, once the previous transaction is ended."""

        def done() -> bool:
            answer = self.run.quietly(self.add(producer, *partitions, version=version), version)
            topics = (
                answer.results_by_transaction[0].topic_results
                if version >= BATCHED
                else answer.results_by_topic_v3_and_below
            )
            codes = {one.partition_error_code for topic in topics for one in topic.results_by_partition}
            assert codes <= {0, *LATER}, codes
            return codes == {0}

        until(done, "the partitions to be added", PATIENCE_S)

    def ended(self, producer: Producer, commit: bool, version: int = END_VERSION) -> Producer:
        """End the transaction and wait for the markers."""

        def done() -> bool:
            answer = self.run.quietly(self.end(producer, commit), version)
            assert answer.error_code in (0, *LATER), answer
            return bool(answer.error_code == 0)

        until(done, "the transaction to be ended", PATIENCE_S)
        return self.current()
