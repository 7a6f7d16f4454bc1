"""Fetch."""

from __future__ import annotations

from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import TIME_MS, batch, delete_records, fetch, part, put
from tests.compat.differential.script import Run, script

FIRST_ID_VERSION = 13
SESSION_VERSIONS = range(7, 19)
READ_COMMITTED = 1
# The size of the batches below.
ONE = len(batch(bytes(100)))


def _filled(run: Run) -> str:
    """Partition 0 has offsets 2 to 6 in five batches, 1 has 0 to 3 in two batches, 2 is empty."""
    name = run.topic(partitions=3)
    put(run, name, 0, *(batch(bytes(100), time_ms=TIME_MS + 100 * at) for at in range(7)))
    put(run, name, 1, batch(b"a", b"b"), batch(b"c", b"d"))
    answer = run.quietly(delete_records({name: [(0, 2)]}), 2)
    assert answer.topics[0].partitions[0].low_watermark == 2
    return name


@script(ApiKey.FETCH)
def fetch_full(run: Run, version: int) -> None:
    name = _filled(run)

    def ask(label: str, *parts: messages.FetchRequest.FetchPartition, **how: Any) -> None:
        run.ask(label, fetch(run, version, {name: parts}, **how), version)

    ask("all of it", part(0, 2), part(1), part(2))
    ask("from the middle", part(0, 4))
    ask("from the middle of a batch", part(1, 1))
    ask("from the last", part(0, 6))
    ask("from the end", part(0, 7))
    ask("beyond the end", part(0, 8))
    ask("before the start", part(0, 1))
    ask("offset -1", part(0, -1))
    ask("empty partition", part(2, 0))
    ask("empty partition, offset 1", part(2, 1))
    ask("unknown partition", part(3))
    ask("partition -1", part(-1))
    ask("known and unknown", part(1), part(3))
    ask("partition twice", part(1, 0), part(1, 2))
    ask("other order", part(2), part(1), part(0, 2))
    run.ask("unknown topic", fetch(run, version, {"no-such-topic": [part(0)]}), version)
    run.ask("unknown and known topic", fetch(run, version, {"no-such-topic": [part(0)], name: [part(1)]}), version)
    run.ask("no topics", fetch(run, version, {}), version)
    run.ask("no partitions", fetch(run, version, {name: []}), version)
    ask("read committed", part(0, 2), part(1), part(2), isolation_level=READ_COMMITTED)
    ask("read committed at the end", part(0, 7), isolation_level=READ_COMMITTED)
    ask("read committed, error", part(0, 70), isolation_level=READ_COMMITTED)
    ask("unknown isolation level", part(1), isolation_level=7)
    ask("rack", part(1), rack_id="r1")
    ask("cluster id", part(1), cluster_id="of another cluster")
    ask("log start offset told", messages.FetchRequest.FetchPartition(partition=1, log_start_offset=5))


@script(ApiKey.FETCH)
def fetch_limits(run: Run, version: int) -> None:
    name = _filled(run)

    def ask(label: str, *parts: messages.FetchRequest.FetchPartition, **how: Any) -> None:
        run.ask(label, fetch(run, version, {name: parts}, **how), version)

    ask("partition limit 1", part(0, 2, 1))
    ask("partition limit 0", part(0, 2, 0))
    ask("partition limit negative", part(0, 2, -1))
    ask("partition limit of one batch", part(0, 2, ONE))
    ask("partition limit of a batch and a bit", part(0, 2, ONE + 1))
    ask("partition limit of a batch and a header", part(0, 2, ONE + 70))
    ask("partition limit of two batches less one", part(0, 2, 2 * ONE - 1))
    ask("partition limit of two batches", part(0, 2, 2 * ONE))
    ask("both partitions limited to 1", part(0, 2, 1), part(1, 0, 1))
    ask("both partitions limited, the other first", part(1, 0, 1), part(0, 2, 1))
    ask("empty one first, both limited", part(2, 0, 1), part(0, 2, 1))
    ask("second limited to a part", part(1, 0), part(0, 2, ONE - 1))
    ask("limit 1", part(0, 2), part(1), max_bytes=1)
    ask("limit 0", part(0, 2), part(1), max_bytes=0)
    ask("limit negative", part(0, 2), part(1), max_bytes=-1)
    ask("limit of a batch", part(0, 2), part(1), max_bytes=ONE)
    ask("limit of all batches and a bit", part(0, 2), part(1), max_bytes=5 * ONE + 20)
    ask("limit of a batch and a bit", part(0, 2), part(1), max_bytes=ONE + 70)
    ask("error, then limit 1", part(0, 1), part(1), max_bytes=1)
    ask("min bytes that are there", part(0, 2), min_bytes=ONE, max_wait_ms=60_000)
    ask("min bytes that are not there", part(0, 2), min_bytes=1 << 20, max_wait_ms=30)
    ask("min bytes that are not there, no wait", part(0, 2), min_bytes=1 << 20)
    ask("waiting at the end", part(0, 7), min_bytes=1, max_wait_ms=30)
    ask("waiting at the end, negative wait", part(0, 7), min_bytes=1, max_wait_ms=-1)
    ask("min bytes 0 does not wait", part(0, 7), min_bytes=0, max_wait_ms=60_000)
    ask("min bytes negative does not wait", part(0, 7), min_bytes=-1, max_wait_ms=60_000)
    ask("an error does not wait", part(0, 7), part(1, 99), min_bytes=1, max_wait_ms=60_000)
    ask("min bytes above the limit", part(0, 2), min_bytes=1 << 20, max_bytes=1, max_wait_ms=60_000)
    run.ask("nothing asked does not wait", fetch(run, version, {}, min_bytes=1, max_wait_ms=60_000), version)


@script(ApiKey.FETCH)
def fetch_epochs(run: Run, version: int) -> None:
    name = _filled(run)

    def ask(label: str, *parts: messages.FetchRequest.FetchPartition, **how: Any) -> None:
        run.ask(label, fetch(run, version, {name: parts}, **how), version)

    ask("current epoch 0", part(1, epoch=0))
    ask("current epoch 1", part(1, epoch=1))
    ask("current epoch -2", part(1, epoch=-2))
    ask("current epoch 1, beyond the end", part(0, 70, epoch=1))
    ask("fetched epoch 0", part(1, 2, fetched_epoch=0))
    ask("fetched epoch 0 at the end", part(1, 4, fetched_epoch=0))
    ask("fetched epoch 0 beyond the end", part(1, 5, fetched_epoch=0))
    ask("fetched epoch 0 before the start", part(0, 1, fetched_epoch=0))
    ask("fetched epoch 1", part(1, 2, fetched_epoch=1))
    ask("fetched epoch 7 and a good one", part(1, 2, fetched_epoch=7), part(0, 2))
    ask("fetched epoch -2", part(1, 2, fetched_epoch=-2))
    ask("fetched epoch 0 of an empty one", part(2, 0, fetched_epoch=0))
    ask("fetched epoch 1 of an empty one", part(2, 0, fetched_epoch=1))
    ask("fetched and current epoch", part(1, 2, epoch=0, fetched_epoch=0))
    ask("diverging does not wait", part(1, 9, fetched_epoch=0), min_bytes=1, max_wait_ms=60_000)


@script(ApiKey.FETCH)
def fetch_as_replica(run: Run, version: int) -> None:
    name = _filled(run)

    def ask(label: str, replica: int, *parts: messages.FetchRequest.FetchPartition, **how: Any) -> None:
        # In a separate structure from version 15 on.
        state = messages.FetchRequest.ReplicaState(replica_id=replica, replica_epoch=-1)
        who = {"replica_state": state} if version >= 15 else {"replica_id": replica}
        run.ask(label, fetch(run, version, {name: parts}, **who, **how), version)

    ask("replica that is not one", 7, part(1))
    ask("replica with the epoch", 7, part(1, epoch=0))
    ask("replica with an epoch to come", 7, part(1, epoch=1))
    ask("replica of an unknown partition", 7, part(9))
    ask("replica beyond the end", 7, part(1, 99))
    ask("the broker itself", 1, part(1))
    ask("debugging consumer", -2, part(1))
    ask("future local replica", -3, part(1))


@script(ApiKey.FETCH, versions=SESSION_VERSIONS)
def fetch_session(run: Run, version: int) -> None:
    name = run.topic(partitions=4)
    other = run.topic("-other")
    put(run, name, 0, batch(b"a"))

    def ask(label: str, session: int, epoch: int, *parts: object, **how: object) -> int:
        topics = {name: parts} if parts else {}
        request = fetch(run, version, topics, session_id=session, session_epoch=epoch, **how)  # type: ignore[arg-type]
        client = run.client()
        client.send(request, version)
        answer = client.receive()
        if not isinstance(answer, str) and answer.session_id and epoch <= 0:
            run.names.give_number("session_id", f"session of {label}", answer.session_id)
        run.record(label, answer)
        return 0 if isinstance(answer, str) else answer.session_id

    session = ask("new", 0, 0, part(0), part(1))
    ask("again, the same offsets", session, 1)
    ask("gone on", session, 2, part(0, 1))
    ask("no news", session, 3)
    put(run, name, 1, batch(b"b"))
    ask("news of 1", session, 4)
    ask("add 2, which is empty", session, 5, part(1, 1), part(2))
    put(run, name, 0, batch(b"c"))
    put(run, name, 2, batch(b"d"))
    ask("news of 0 and 2", session, 6)
    ask("news of 0 and 2 again", session, 7)
    ask("forget 0", session, 8, forget={name: [0]})
    ask("forget what is not there", session, 9, part(2, 1), forget={name: [3], other: [0]})
    ask("forget and add", session, 10, part(0, 2), forget={name: [0]})
    put(run, name, 0, batch(b"e"))
    ask("forgotten and added", session, 11)
    ask("unknown partition added", session, 12, part(0, 3), part(9))
    ask("unknown partition is told again", session, 13)
    ask("unknown partition forgotten", session, 14, forget={name: [9]})
    ask("beyond the end", session, 15, part(1, 50))
    ask("beyond the end is told again", session, 16)
    ask("back", session, 17, part(1, 1))
    ask("wrong epoch: behind", session, 17)
    ask("wrong epoch: ahead", session, 30)
    ask("wrong epoch: negative", session, -2)
    ask("right epoch after wrong ones", session, 18)
    ask("waits for news", session, 19, min_bytes=1, max_wait_ms=30)
    quiet = run.quietly(delete_records({name: [(0, 1)]}), 2)
    assert quiet.topics[0].partitions[0].low_watermark == 1
    ask("log start offset moved", session, 20)
    ask("unknown session", 1 if session != 1 else 2, 1)
    ask("session 0 in epoch 1", 0, 1)
    ask("session 0 in epoch -1", 0, -1, part(2))
    ask("closed", session, -1, part(2))
    ask("closed twice", session, -1)
    ask("gone on after closing", session, 21)
    first = ask("first of two", 0, 0, part(2))
    second = ask("replaces the first", first, 0, part(2))
    ask("first is gone", first, 1)
    ask("second goes on", second, 1)
    ask("forgets all", second, 2, forget={name: [2]})
    ask("after forgetting all", second, 3)
    ask("new without partitions", 0, 0)
    ask("unknown partition in a new one", 0, 0, part(9))


@script(ApiKey.FETCH, versions=SESSION_VERSIONS)
def fetch_session_topics(run: Run, version: int) -> None:
    """Topics that do not exist, that are deleted, and that are created again under their name."""
    name = run.topic()
    lost = run.topic("-lost")
    put(run, name, 0, batch(b"a"))
    put(run, lost, 0, batch(b"b"))

    def ask(label: str, session: int, epoch: int, topics: object, as_version: int = version, **how: object) -> int:
        request = fetch(run, as_version, topics, session_id=session, session_epoch=epoch, **how)  # type: ignore[arg-type]
        answer = run.client().ask(request, as_version)
        assert not isinstance(answer, str)
        if answer.session_id:
            run.names.give_number("session_id", "session", answer.session_id)
        run.record(label, answer)
        return int(answer.session_id)

    session = ask("one exists, one does not", 0, 0, {name: [part(0)], "no-such-topic": [part(0)], lost: [part(0)]})
    ask("told again", session, 1, {})
    ask("forget the unknown", session, 2, {name: [part(0, 1)], lost: [part(0, 1)]}, forget={"no-such-topic": [0]})
    ask("no news", session, 3, {})
    run.delete_topic(lost)
    ask("deleted", session, 4, {})
    ask("deleted, again", session, 5, {})
    again = run.topic("-lost", partitions=1)
    assert again == lost
    ask("there again", session, 6, {})
    put(run, lost, 0, batch(b"c"))
    ask("there again with news", session, 7, {})
    ask("added anew", session, 8, {lost: [part(0)]})
    other = FIRST_ID_VERSION - 1 if version >= FIRST_ID_VERSION else FIRST_ID_VERSION
    ask("the other way of naming topics", session, 9, {}, other)
    ask("the first way again", session, 9, {})
    ask("the first way again, next", session, 10, {})
    ask("full in the other way", session, 0, {name: [part(0)]}, other)
