"""The transaction coordinator: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, and its admin requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.compat.differential.transactions import (
    ADD_VERSION,
    BATCHED,
    BUMPS,
    END_VERSION,
    INIT_VERSION,
    LATER,
    TIMEOUT_MS,
    Producer,
    Transactions,
)
from tests.support.wait import until


def _sorted(own: Transactions) -> Any:
    """A description with its partitions in order, and without times."""
    found = own.settle()
    found.topics.sort(key=lambda topic: topic.topic)
    for topic in found.topics:
        topic.partitions.sort()
    found.transaction_start_time_ms = min(found.transaction_start_time_ms, 1)
    return found


@script(ApiKey.INIT_PRODUCER_ID, broker="transactions")
def transactional_ids(run: Run, version: int) -> None:
    own = Transactions(run)

    def ask(label: str, producer_id: int = -1, epoch: int = -1, timeout_ms: int = TIMEOUT_MS) -> None:
        run.ask(label, own.init((producer_id, epoch), timeout_ms), version)

    for label, timeout_ms in (("0", 0), ("negative", -1), ("too long", 900_001)):
        ask(f"timeout {label}", timeout_ms=timeout_ms)
    producer_id, epoch = own.producer()
    run.record("first epoch", str(epoch))
    ask("again")
    ask("with the longest timeout", timeout_ms=900_000)
    ask("id and epoch that it has", producer_id, epoch + 2)
    ask("the same, which had no answer", producer_id, epoch + 2)
    ask("an older epoch", producer_id, epoch)
    ask("a newer epoch", producer_id, epoch + 30)
    ask("another producer id", producer_id + 10_000, epoch + 3)
    ask("no epoch", producer_id, -1)
    ask("no producer id", -1, epoch)
    ask("the largest epoch", producer_id, 32767)
    other = Transactions(run, "-forgotten")
    answer = until(
        lambda: (found := run.quietly(other.init((5, 7)), INIT_VERSION)).error_code not in LATER and found,
        "a producer id",
        PATIENCE_S,
    )
    run.names.give_number("producer_id", "other", answer.producer_id)
    run.record("an id that nobody knows, with a producer", answer)


@script(ApiKey.INIT_PRODUCER_ID, broker="transactions")
def fencing(run: Run, version: int) -> None:
    """A producer starts while its predecessor's transaction is open."""
    for protocol, add_version in (("old", ADD_VERSION), ("new", BUMPS)):
        topic = run.topic(f"-{protocol}")
        own = Transactions(run, f"-{protocol}")
        producer_id, epoch = own.producer()
        own.added((producer_id, epoch), (topic, 0), version=add_version)
        run.ask(f"{protocol}: another producer id", own.init((producer_id + 10_000, epoch)), version)
        run.ask(f"{protocol}: comes", own.init(), version)
        found = own.settle()
        run.record(f"{protocol}: state", f"{found.transaction_state} {found.producer_epoch - epoch}")
        run.ask(f"{protocol}: old one adds", own.add((producer_id, epoch), (topic, 0)), ADD_VERSION)
        run.ask(f"{protocol}: old one commits", own.end((producer_id, epoch), True), END_VERSION)
        run.ask(f"{protocol}: old one aborts", own.end((producer_id, epoch), False), END_VERSION)
        run.ask(f"{protocol}: comes again", own.init(), version)


@script(ApiKey.ADD_PARTITIONS_TO_TXN, broker="transactions")
def add_partitions(run: Run, version: int) -> None:
    topic = run.topic(partitions=2)
    own = Transactions(run)

    def ask(label: str, producer: Producer, *partitions: tuple[str, int], who: Transactions = own, **how: Any) -> None:
        """If codes differ, Kafka returns partitions in the order of their hashes."""
        if not run.offer(label, who.add(producer, *partitions, version=version, **how), version):
            return
        answer = run.answer(label)
        if not isinstance(answer, str):
            batched = answer.results_by_transaction
            for result in batched[0].topic_results if batched else answer.results_by_topic_v3_and_below:
                result.results_by_partition.sort(key=lambda one: one.partition_index)
        run.record(label, answer)

    ask("an id that nobody knows", (4000, 0), (topic, 0))
    producer_id, epoch = producer = own.producer()
    ask("another producer id", (producer_id + 10_000, epoch), (topic, 0))
    ask("an older epoch", (producer_id, epoch - 1), (topic, 0))
    ask("a newer epoch", (producer_id, epoch + 1), (topic, 0))
    ask("unknown topic", producer, ("nobody", 0))
    ask("unknown partition", producer, (topic, 2), (topic, 0))
    ask("no such things and wrong producer", (1, 1), ("nobody", 0))
    ask("nothing", producer)
    ask("one", producer, (topic, 0))
    ask("the same", producer, (topic, 0))
    ask("one more", producer, (topic, 0), (topic, 1))
    ask("an older epoch of an open one", (producer_id, epoch - 1), (topic, 0))
    run.record("described", _sorted(own))
    nameless = Transactions(run)
    nameless.id = ""
    ask("empty transactional id", producer, (topic, 0), who=nameless)
    current = own.ended(producer, True)
    ask("after the end", current, (topic, 1))
    run.record("described after", _sorted(own))
    own.ended(current, False)
    if version < BATCHED:
        return
    ask("verify: not there", current, (topic, 0), verify=True)
    own.added(current, (topic, 1))
    ask("verify: one is there", current, (topic, 0), (topic, 1), verify=True)
    ask("verify: another producer id", (producer_id + 10_000, epoch), (topic, 1), verify=True)
    ask("verify: an older epoch", (producer_id, current[1] - 1), (topic, 1), verify=True)
    ask("verify: a newer epoch", (producer_id, current[1] + 1), (topic, 1), verify=True)
    ask("verify: unknown topic", current, (topic, 1), ("nobody", 0), verify=True)
    ask("verify: empty transactional id", current, (topic, 0), who=nameless, verify=True)
    unknown = Transactions(run, "-unknown")
    ask("verify: an id that nobody knows", current, (topic, 0), who=unknown, verify=True)


@script(ApiKey.ADD_OFFSETS_TO_TXN, broker="transactions")
def add_offsets(run: Run, version: int) -> None:
    own = Transactions(run)

    def ask(label: str, transactional_id: str, producer: Producer, group: str = "g") -> None:
        request = messages.AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id=group
        )
        run.ask(label, request, version)

    ask("an id that nobody knows", own.id, (4000, 0))
    producer_id, epoch = producer = own.producer()
    ask("empty transactional id", "", producer)
    ask("another producer id", own.id, (producer_id + 10_000, epoch))
    ask("an older epoch", own.id, (producer_id, epoch - 1))
    ask("a newer epoch", own.id, (producer_id, epoch + 1))
    ask("a group", own.id, producer)
    ask("the same", own.id, producer)
    ask("empty group", own.id, producer, "")
    run.record("state", own.settle().transaction_state)


@script(ApiKey.END_TXN, broker="transactions")
def end_transactions(run: Run, version: int) -> None:
    """Each state, with the previous, the current and the next epoch, for commit and abort."""
    topic = run.topic()
    add_version = BUMPS if version >= BUMPS else ADD_VERSION

    def empty(own: Transactions) -> Producer:
        return own.producer()

    def ongoing(own: Transactions) -> Producer:
        producer = own.producer()
        own.added(producer, (topic, 0), version=add_version)
        return producer

    def complete(own: Transactions, commit: bool) -> Producer:
        return own.ended(ongoing(own), commit, version)

    states: dict[str, Callable[[Transactions], Producer]] = {
        "empty": empty,
        "ongoing": ongoing,
        "committed": lambda own: complete(own, True),
        "aborted": lambda own: complete(own, False),
    }
    own = Transactions(run)
    run.ask("an id that nobody knows", own.end((4000, 0), True), version)
    nameless = Transactions(run)
    nameless.id = ""
    run.ask("empty transactional id", nameless.end((4000, 0), True), version)
    for state, arrive in states.items():
        for what, commit in (("commit", True), ("abort", False)):
            own = Transactions(run, f"-{state}-{what}")
            producer_id, epoch = arrive(own)
            label = f"{state}: {what}"
            run.ask(f"{label}, another producer id", own.end((producer_id + 10_000, epoch), commit), version)
            run.ask(f"{label}, newer epoch", own.end((producer_id, epoch + 1), commit), version)
            run.ask(f"{label}, older epoch", own.end((producer_id, epoch - 1), commit), version)
            run.ask(f"{label}", own.end((producer_id, epoch), commit), version)
            found = own.settle()
            run.record(f"{label}, then", f"{found.transaction_state} {found.producer_epoch - epoch}")
            run.ask(f"{label}, again", own.end((producer_id, epoch), commit), version)
            run.ask(f"{label}, the other end", own.end((producer_id, epoch), not commit), version)


@script(ApiKey.LIST_TRANSACTIONS, broker="transactions")
def list_transactions(run: Run, version: int) -> None:
    topic = run.topic()
    open_one, done = Transactions(run, "-open"), Transactions(run, "-done")
    producer_id, epoch = done.producer()
    done.added((producer_id, epoch), (topic, 0))
    done.ended((producer_id, epoch), True)
    mine = [producer_id]
    producer_id, epoch = open_one.producer()
    run.names.give_number("producer_id", "open", producer_id)
    open_one.added((producer_id, epoch), (topic, 0))
    mine.append(producer_id)

    def ask(label: str, ids: list[int] = mine, **how: Any) -> None:
        request = messages.ListTransactionsRequest(producer_id_filters=ids, **how)
        if run.offer(label, request, version):
            answer = run.answer(label)
            if not isinstance(answer, str):
                answer.transaction_states.sort(key=lambda found: found.transactional_id)
                answer.unknown_state_filters.sort()
            run.record(label, answer)

    ask("both")
    ask("nobody", [producer_id + 10_000])
    for state in ("Ongoing", "CompleteCommit", "Dead", "PrepareEpochFence", "ongoing", ""):
        ask(f"state {state}", state_filters=[state])
    ask("a state and an unknown one", state_filters=["Ongoing", "Odd", "Odd"])
    ask("unknown states", state_filters=["Odd", "Even"])
    ask("an hour", duration_filter=3_600_000)
    ask("any time", duration_filter=0)
    ask("before any time", duration_filter=-5)
    for label, pattern in {
        "whole": f"{run.name}-open",
        "end": ".*-open",
        "part": "open",
        "empty": "",
        "case": f"(?i){run.name.upper()}-OPEN",
        "class": ".*-[[:alpha:]]+",
        "unicode": ".*-\\p{Ll}+",
        "malformed": "(",
        "look-ahead": "(?=x)x",
        "back-reference": "(a)\\1",
    }.items():
        ask(f"pattern {label}", transactional_id_pattern=pattern)


@script(ApiKey.DESCRIBE_TRANSACTIONS, broker="transactions")
def describe_transactions(run: Run, version: int) -> None:
    topics = [run.topic(suffix, partitions=2) for suffix in ("-a", "-b")]
    own = Transactions(run)

    def ask(label: str, *ids: str) -> None:
        request = messages.DescribeTransactionsRequest(transactional_ids=list(ids))
        if run.offer(label, request, version):
            answer = run.answer(label)
            if not isinstance(answer, str):
                for found in answer.transaction_states:
                    found.transaction_start_time_ms = min(found.transaction_start_time_ms, 1)
                    found.topics.sort(key=lambda topic: topic.topic)
                    for topic in found.topics:
                        topic.partitions.sort()
            run.record(label, answer)

    ask("none")
    ask("empty", "")
    ask("nobody", "nobody")
    producer = own.producer()
    ask("new", own.id)
    own.added(producer, *((topic, index) for topic in topics for index in (1, 0)))
    ask("open", own.id)
    ask("twice", own.id, own.id, "")
    producer = own.ended(producer, True)
    ask("committed", own.id)
    own.producer()
    ask("begun again", own.id)
