"""Transactions as partitions and groups see them: TxnOffsetCommit, WriteTxnMarkers, DescribeProducers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import batch, fetch, part, produce, put
from tests.compat.differential.members import Member, stable
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.compat.differential.scripts_txn_produce import TRANSACTIONAL, Writer
from tests.compat.differential.transactions import BUMPS, END_VERSION, Producer, Transactions
from tests.support.wait import until

# From this version on a TxnOffsetCommit adds the group's partition itself.
ADDS = 5
PRODUCE_VERSION = 11
OFFSETS_TOPIC = "__consumer_offsets"


def txn_commit(
    own: Transactions, producer: Producer, group: str, topics: Mapping[str, Sequence[int]], offset: int = 7, **how: Any
) -> messages.TxnOffsetCommitRequest:
    request = messages.TxnOffsetCommitRequest
    metadata = how.pop("metadata", "m")
    return request(
        transactional_id=how.pop("transactional_id", own.id),
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[
            request.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    request.TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                    for index in indexes
                ],
            )
            for name, indexes in topics.items()
        ],
        **how,
    )


def offsets_added(own: Transactions, producer: Producer, group: str) -> None:
    """Send AddOffsetsToTxn until the previous transaction is ended."""
    request = messages.AddOffsetsToTxnRequest(
        transactional_id=own.id, producer_id=producer[0], producer_epoch=producer[1], group_id=group
    )
    until(lambda: own.run.quietly(request, 3).error_code == 0, "the group to be added", PATIENCE_S)


def committed(run: Run, group: str, topic: str, stable_only: bool) -> messages.OffsetFetchRequest:
    request = messages.OffsetFetchRequest
    topics = [request.OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1])]
    return request(groups=[request.OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable_only)


@script(ApiKey.TXN_OFFSET_COMMIT, broker="transactions")
def txn_offset_commit(run: Run, version: int) -> None:
    topic = run.topic(partitions=2)
    group = f"{run.name}-group"
    own, other = Transactions(run), Transactions(run, "-other")
    adds = version >= ADDS

    def ask(label: str, producer: Producer, parts: Mapping[str, Sequence[int]] | None = None, **how: Any) -> None:
        name = how.pop("group", group)
        run.ask(label, txn_commit(own, producer, name, {topic: [0]} if parts is None else parts, **how), version)

    def fetched(label: str) -> None:
        for what, stable_only in (("", False), (", stable", True)):
            run.ask(label + what, committed(run, group, topic, stable_only), 8)

    ask("an id that nobody knows", (4000, 0))
    producer_id, epoch = producer = own.producer()
    other.producer()
    ask("empty transactional id", producer, transactional_id="")
    ask("another's transactional id", producer, transactional_id=other.id)
    ask("another producer id", (producer_id + 10_000, epoch))
    ask("an older epoch", (producer_id, epoch - 1))
    ask("a newer epoch", (producer_id, epoch + 1))
    ask("empty group", producer, group="")
    ask("not added", producer)
    if not adds:
        offsets_added(own, producer, group)
    ask("added", producer)
    ask("no producer id", (-1, epoch))
    ask("no topics", producer, {})
    ask("no partitions", producer, {topic: []})
    ask("unknown topic", producer, {"nobody": [0], topic: [0]})
    ask("unknown partition", producer, {topic: [0, 7]})
    ask("metadata too large", producer, metadata="m" * 5000)
    ask("no metadata", producer, {topic: [1]}, metadata=None)
    ask("offset -1", producer, {topic: [1]}, offset=-1)
    ask("generation of a group that has none", producer, generation_id=3, member_id="member")
    ask("member without generation", producer, member_id="member")
    ask("instance without generation", producer, member_id="member", group_instance_id="instance")
    fetched("pending")
    ask("twice", producer, {topic: [0, 0]})
    answer = run.quietly(describe_request(OFFSETS_TOPIC, *range(4)), 0)
    found = [one for part in answer.topics[0].partitions for one in part.active_producers]
    for one in found:
        if one.producer_id == producer_id:
            run.record("producer of the group's partition", one)
    ask("an older epoch of an open one", (producer_id, epoch - 1))
    ask("a newer epoch of an open one", (producer_id, epoch + 1))
    late = producer
    producer = own.ended(producer, True, BUMPS if adds else END_VERSION)
    fetched("committed")
    ask("late", late)
    if not adds:
        offsets_added(own, producer, group)
    ask("next", producer, offset=8)
    own.ended(producer, False, BUMPS if adds else END_VERSION)
    fetched("aborted")


@script(ApiKey.TXN_OFFSET_COMMIT, broker="transactions")
def txn_offset_commit_of_members(run: Run, version: int) -> None:
    """KIP-447: a member that its group has left behind can no longer commit."""
    topic = run.topic()
    group, still = f"{run.name}-group", f"{run.name}-static"
    own = Transactions(run)
    producer = own.producer()
    (member,) = stable(run, group, "member")
    fixed = Member(run, still, "fixed", "instance")
    fixed.join()
    fixed.sync((fixed.id, b"all"))
    if version < ADDS:
        offsets_added(own, producer, group)
        offsets_added(own, producer, still)

    def ask(label: str, name: str = group, **how: Any) -> None:
        run.ask(label, txn_commit(own, producer, name, {topic: [0]}, **how), version)

    ask("nothing told")
    ask("member", generation_id=member.generation, member_id=member.id)
    ask("older generation", generation_id=member.generation - 1, member_id=member.id)
    ask("newer generation", generation_id=member.generation + 1, member_id=member.id)
    ask("no generation", generation_id=-1, member_id=member.id)
    ask("unknown member", generation_id=member.generation, member_id="nobody")
    ask("generation and no member", generation_id=member.generation)
    ask("unknown instance", generation_id=member.generation, member_id=member.id, group_instance_id="nobody")
    ask("instance", still, generation_id=1, member_id=fixed.id, group_instance_id="instance")
    ask("fenced instance", still, generation_id=1, member_id="nobody", group_instance_id="instance")
    ask("instance and no member", still, generation_id=1, group_instance_id="instance")
    joining = Member(run, group, "second")
    joining.send_join()
    member.await_rebalance()
    ask("while rebalancing", generation_id=member.generation, member_id=member.id)
    member.send_join()
    member.joined()
    joining.joined()
    ask("before the assignment", generation_id=member.generation, member_id=member.id)
    ask("before the assignment, older generation", generation_id=member.generation - 1, member_id=member.id)


def marker(
    producer: Producer, topics: Mapping[str, Sequence[int]], commit: bool = True, coordinator_epoch: int = 0, **how: Any
) -> Any:
    request = messages.WriteTxnMarkersRequest
    return request.WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=commit,
        topics=[request.WritableTxnMarkerTopic(name=name, partition_indexes=list(i)) for name, i in topics.items()],
        coordinator_epoch=coordinator_epoch,
        **how,
    )


def open_in(run: Run, topic: str, partition: int, producer: Producer) -> None:
    """An open transaction, the first of its producer that the partition knows."""
    data = batch(b"x", producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, attributes=TRANSACTIONAL)
    answer = run.quietly(
        produce(run, PRODUCE_VERSION, {topic: {partition: data}}, transactional_id=run.name), PRODUCE_VERSION
    )
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


def describe_request(topic: str, *partitions: int) -> messages.DescribeProducersRequest:
    request = messages.DescribeProducersRequest
    return request(topics=[request.TopicRequest(name=topic, partition_indexes=list(partitions))])


def producers_of(run: Run, label: str, topic: str, *partitions: int) -> None:
    """DescribeProducers, whose order is that of a hash table."""
    run.send(describe_request(topic, *partitions), 0)
    answer = run.answer(label)
    if not isinstance(answer, str):
        for found in answer.topics[0].partitions:
            found.active_producers.sort(key=lambda one: one.producer_id)
    run.record(label, answer)


@script(ApiKey.WRITE_TXN_MARKERS, broker="transactions")
def write_markers(run: Run, version: int) -> None:
    topic = run.topic(partitions=8)
    own = Transactions(run)
    own.producer()
    first = own.producer()
    own.added(first, *((topic, index) for index in range(8)))
    for index in range(6):
        open_in(run, topic, index, first)
    producer_id, epoch = first
    for away in (10_000, 20_000):
        run.names.give_number("producer_id", f"stranger {away}", producer_id + away)

    def ask(label: str, *markers: Any) -> None:
        """Kafka returns producers, topics and partitions in the order of their hashes."""
        if not run.offer(label, messages.WriteTxnMarkersRequest(markers=list(markers)), version):
            return
        answer = run.answer(label)
        if not isinstance(answer, str):
            answer.markers.sort(key=lambda one: one.producer_id)
            for result in answer.markers:
                result.topics.sort(key=lambda one: one.name)
                for found in result.topics:
                    found.partitions.sort(key=lambda one: one.partition_index)
        run.record(label, answer)

    ask("none")
    # Kafka does not answer if one marker has partitions and another has none.
    ask("no topics", marker(first, {}))
    ask("no partitions", marker(first, {topic: []}))
    ask("unknown topic", marker(first, {"nobody": [0]}))
    ask("unknown partition", marker(first, {topic: [8, -1]}))
    ask("older epoch", marker((producer_id, epoch - 1), {topic: [0]}))
    ask("no epoch", marker((producer_id, -1), {topic: [0], "nobody": [0]}))
    ask("own epoch", marker(first, {topic: [0]}))
    ask("own epoch again", marker(first, {topic: [0]}))
    ask("older coordinator", marker(first, {topic: [0]}, coordinator_epoch=-1))
    ask("newer coordinator", marker(first, {topic: [1]}, commit=False, coordinator_epoch=7))
    ask("the one before it", marker(first, {topic: [1]}, coordinator_epoch=6))
    ask("newer epoch", marker((producer_id, epoch + 1), {topic: [2]}))
    ask("then its own epoch", marker(first, {topic: [2]}))
    ask("good and bad", marker(first, {topic: [3, 9], "nobody": [0]}, commit=False))
    ask("nothing was written", marker(first, {topic: [6]}))
    ask("producer that nobody knows", marker((producer_id + 10_000, 3), {topic: [6]}))
    ask("no producer", marker((-1, 0), {topic: [6], OFFSETS_TOPIC: [0]}))
    ask("offsets, nothing pending", marker(first, {OFFSETS_TOPIC: [0]}))
    ask("offsets, unknown partition", marker(first, {OFFSETS_TOPIC: [77]}))
    ask("two producers", marker((producer_id + 20_000, 0), {topic: [7]}), marker(first, {topic: [4]}))
    ask("one producer twice", marker(first, {topic: [6]}), marker(first, {topic: [7]}, commit=False))
    for transaction_version in (0, 1, 2, 3):
        for label, added in (("own", 0), ("next", 1), ("next", 2)):
            ask(
                f"transaction.version {transaction_version}, {label} epoch {added}",
                marker((producer_id, epoch + added), {topic: [5]}, transaction_version=transaction_version),
            )
    producers_of(run, "producers", topic, *range(8))
    run.ask("what was written", fetch(run, 12, {topic: [part(i) for i in range(8)]}), 12)
    run.ask("what is decided", fetch(run, 12, {topic: [part(i) for i in range(8)]}, isolation_level=1), 12)


@script(ApiKey.DESCRIBE_PRODUCERS, broker="transactions")
def describe_producers(run: Run, version: int) -> None:
    topic = run.topic(partitions=4)
    producers_of(run, "nobody", topic, 0, 1)
    producers_of(run, "no partitions", topic)
    producers_of(run, "unknown partitions", topic, 0, 4, -1)
    producers_of(run, "unknown topic", "nobody", 0)
    producers_of(run, "name that is not allowed", "a b", 0)
    producers_of(run, "empty name", "", 0)
    request = messages.DescribeProducersRequest
    run.ask("nothing", request(topics=[]), 0)
    plain = run.producer_id("plain")
    put(run, topic, 0, batch(b"a", b"b", producer_id=plain, producer_epoch=0, base_sequence=0))
    put(run, topic, 0, batch(b"c", producer_id=plain, producer_epoch=0, base_sequence=2))
    producers_of(run, "plain", topic, 0)
    for version_of_produce in (PRODUCE_VERSION, 12):
        writer = Writer(run, version_of_produce, topic, f"-{version_of_produce}")
        writer.begin(1)
        label = f"Produce {version_of_produce}"
        writer.send(f"{label}: sent", {1: writer.records(0, count=3)}, client="produce")
        producers_of(run, f"{label}: open", topic, 1)
        writer.end(True)
        producers_of(run, f"{label}: committed", topic, 1)
        writer.begin(1)
        writer.send(f"{label}: sent behind", {1: writer.records(0 if writer.adds else 3)}, client="produce")
        producers_of(run, f"{label}: open again", topic, 1)
        writer.end(False)
        producers_of(run, f"{label}: aborted", topic, 1)
