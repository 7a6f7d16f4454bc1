"""After a restart: leader epochs went up, so that older ones can be told from the newest."""

from __future__ import annotations

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import TIME_MS, batch, fetch, list_offsets, part, put
from tests.compat.differential.script import Run, script

FETCH, LIST_OFFSETS, EPOCHS = 18, 11, 4


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
