"""After a restart: leader epochs are higher, so that older ones are recognized; producers and groups are known."""

from __future__ import annotations

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import TIME_MS, batch, fetch, list_offsets, part, produce, put
from tests.compat.differential.members import HEARTBEAT, heartbeat, join, stable, sync
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.compat.differential.scripts_group_offsets import commit, committed
from tests.support.wait import until

FETCH, LIST_OFFSETS, EPOCHS, PRODUCE = 18, 11, 4, 13
COMMIT, COMMITTED, DESCRIBE = 9, 9, 5


@script(ApiKey.FETCH, broker="restarted", versions=[FETCH])
def epochs_after_restart(run: Run, version: int) -> None:
    name = run.topic(partitions=2)
    put(run, name, 0, batch(b"a"), batch(b"b"))
    run.restart()
    run.learn_topic(name, 2)
    newest = run.described(name).partitions[0].leader_epoch
    run.record("the leader epoch went up", str(newest > 0))
    for field in ("leader_epoch", "epoch", "current_leader_epoch"):
        run.names.give_number(field, "newest epoch", newest)
    put(run, name, 0, batch(b"c", time_ms=TIME_MS + 50))
    _fetches(run, name, newest)
    request = messages.OffsetForLeaderEpochRequest
    for label, current in (("", -1), ("fenced, ", 0), ("newest, ", newest), ("unknown, ", newest + 1)):
        for what, epoch in (("oldest", 0), ("newest", newest), ("one more", newest + 1)):
            asked = [
                request.OffsetForLeaderPartition(partition=i, leader_epoch=epoch, current_leader_epoch=current)
                for i in (0, 1)
            ]
            topics = [request.OffsetForLeaderTopic(topic=name, partitions=asked)]
            run.ask(f"{label}end of {what}", request(topics=topics), EPOCHS)
    for label, current in (("fenced", 0), ("newest", newest), ("unknown", newest + 1)):
        for timestamp in (-1, -2, -3, TIME_MS, TIME_MS + 1, TIME_MS + 60):
            asked_offsets = list_offsets({name: [(0, timestamp, current)]})
            run.ask(f"{label}: offset of {timestamp}", asked_offsets, LIST_OFFSETS)
    run.ask("offsets of an empty one", list_offsets({name: [(1, -1)]}), LIST_OFFSETS)
    run.ask("start of an empty one", list_offsets({name: [(1, -2)]}), LIST_OFFSETS)


def _fetches(run: Run, name: str, newest: int) -> None:
    def ask(label: str, *parts: messages.FetchRequest.FetchPartition) -> None:
        run.ask(label, fetch(run, FETCH, {name: parts}), FETCH)

    ask("all", part(0))
    ask("current: newest", part(0, epoch=newest))
    ask("current: fenced", part(0, epoch=0))
    ask("current: one before", part(0, epoch=newest - 1))
    ask("current: unknown", part(0, epoch=newest + 1))
    ask("fetched: oldest, in it", part(0, 2, fetched_epoch=0))
    ask("fetched: oldest, beyond it", part(0, 3, fetched_epoch=0))
    ask("fetched: newest", part(0, 3, fetched_epoch=newest))
    ask("fetched: newest, before it", part(0, 1, fetched_epoch=newest))
    ask("fetched: one more", part(0, 3, fetched_epoch=newest + 1))
    ask("empty, fetched: oldest", part(1, 0, fetched_epoch=0))


@script(ApiKey.PRODUCE, broker="restarted", versions=[PRODUCE])
def producers_after_restart(run: Run, version: int) -> None:
    name = run.topic()
    producer_id = run.producer_id()

    def data(sequence: int, epoch: int = 1, count: int = 1) -> bytes:
        return batch(*[b"x"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)

    def ask(label: str, *how: int) -> None:
        run.ask(label, produce(run, version, {name: {0: data(*how)}}), version)

    put(run, name, 0, data(0), data(1), data(2, 1, 3))
    run.restart()
    run.learn_topic(name)
    ask("sequence 0 again", 0)
    ask("sequences 2 to 4 again", 2, 1, 3)
    ask("sequence 6, 5 is next", 6)
    ask("epoch 0", 5, 0)
    ask("sequence 5", 5)
    ask("sequence 5 again", 5)
    ask("epoch 2", 0, 2)
    run.record("a new producer has an id of its own", str(run.producer_id("new producer") > producer_id))


@script(ApiKey.FETCH, broker="restarted", versions=[FETCH])
def groups_after_restart(run: Run, version: int) -> None:
    name = run.topic()
    group = run.name
    member, other = stable(run, group, "one", "two")
    run.quietly(commit(run, COMMIT, group, {name: [(0, 7, "words")]}, member.generation, member.id), COMMIT)
    run.quietly(commit(run, COMMIT, f"{group}-simple", {name: [(0, 8)]}), COMMIT)
    session = run.quietly(fetch(run, version, {name: [part(0)]}, session_id=0, session_epoch=0), version).session_id
    run.names.give_number("session_id", "session", session)
    run.restart()
    run.learn_topic(name)
    groups = [group, f"{group}-simple"]
    loaded = "groups to be loaded"
    until(lambda: _error_of(run, groups) == 0, loaded, PATIENCE_S)
    run.ask("described", messages.DescribeGroupsRequest(groups=groups), DESCRIBE)
    for each in groups:
        run.ask(f"committed by {each}", committed(run, COMMITTED, each, None), COMMITTED)
    run.ask("session", fetch(run, version, {}, session_id=session, session_epoch=1), version)
    run.ask("heartbeat", heartbeat(group, member.generation, member.id), HEARTBEAT)
    run.ask("heartbeat, generation before", heartbeat(group, member.generation - 1, member.id), HEARTBEAT)
    run.ask("sync", sync(group, member.generation, member.id), 5)
    run.ask("commit", commit(run, COMMIT, group, {name: [(0, 9)]}, other.generation, other.id), COMMIT)
    run.ask("follower joins again", join(group, other.id), 9)
    run.ask("unknown member joins", join(group, "nobody"), 9)


def _error_of(run: Run, groups: list[str]) -> int:
    """Return the first error in a response."""
    answer = run.quietly(messages.DescribeGroupsRequest(groups=groups), DESCRIBE)
    return next((each.error_code for each in answer.groups if each.error_code), 0)
