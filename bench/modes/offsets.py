"""`offsets`: the time until a group coordinator has loaded its committed offsets after kill -9.

OffsetCommit 2, OffsetFetch 2 and FindCoordinator 1 are encoded by hand as in bench.wire.protocol; the groups have no
members.
"""

import struct
import time
from collections.abc import Callable, Sequence
from functools import partial

from bench.modes.base import Outcome
from bench.modes.lifecycle import each
from bench.spec.target import TargetSpec
from bench.targets.brokers import Target
from bench.window.engine import Measured, Session
from bench.wire.protocol import Client, ProtocolError, Reader, check

COUNT = 100_000

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
TOPIC = "bench-offsets"
PARTITIONS = 100
# The coordinator is not ready yet: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
NOT_YET = {14, 15, 16}
PATIENCE_S = 60.0


def offsets(session: Session, specs: Sequence[TargetSpec], outcome: Outcome, count: int, pairs: int) -> None:
    """Commit `count` offsets, kill the target and start it; measure the seconds from its first response until it has
    answered for every group, minus the time that the requests take themselves."""
    groups = [f"bench-group-{number}" for number in range(count // PARTITIONS)]

    def work(session: Session, target: Target, run: Measured) -> None:
        session.on_phase(f"{target.name}: committing")
        target.create_topic(TOPIC, PARTITIONS)
        with Client(target.address) as client:
            until_ready(partial(find, client, groups[0]))
            for group in groups:
                session.go_on()
                until_ready(partial(commit, client, group))
        session.on_phase(f"{target.name}: kill -9, start")
        target.kill()
        target.start()
        with Client(target.address) as client:
            begun = time.monotonic()
            for group in groups:
                until_ready(partial(fetch, client, group))
            took = time.monotonic() - begun
            begun = time.monotonic()
            for group in groups:
                fetch(client, group)
            asking = time.monotonic() - begun
        run.extra |= {
            "committed_offsets": len(groups) * PARTITIONS,
            "offsets_loaded_s": max(0.0, took - asking),
            "recovery_s": target.first_answer_s,
        }

    each(session, specs, outcome, pairs, f"{len(groups) * PARTITIONS:,} committed offsets", work)


def until_ready(ask: Callable[[], int]) -> None:
    """Repeat the request until the coordinator is ready; raises ProtocolError for any other error, or after
    PATIENCE_S.
    """
    deadline = time.monotonic() + PATIENCE_S
    while (code := ask()) in NOT_YET and time.monotonic() < deadline:
        time.sleep(0.002)
    check(code, "group coordinator")


def text(value: str) -> bytes:
    """Encode a string with a length of two bytes."""
    return struct.pack(">h", len(value)) + value.encode()


def find(client: Client, group: str) -> int:
    reader = client.call(FIND_COORDINATOR, 1, text(group) + b"\0", flexible=False)
    reader.take(4)
    return reader.number(2)


def commit(client: Client, group: str) -> int:
    """Commit an offset for each partition; returns the first error, if any."""
    body = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">qi", -1, 1) + text(TOPIC)
    body += struct.pack(">i", PARTITIONS)
    for partition in range(PARTITIONS):
        body += struct.pack(">iq", partition, partition + 1) + text("bench")
    reader = client.call(OFFSET_COMMIT, 2, body, flexible=False)
    codes = [code for _, code in topic(reader, lambda: (reader.number(4), reader.number(2)))]
    return next((code for code in codes if code), 0)


def fetch(client: Client, group: str) -> int:
    """Fetch the offsets of all partitions. Raises ProtocolError if one is not the committed offset."""
    body = text(group) + struct.pack(">i", 1) + text(TOPIC)
    body += struct.pack(">i", PARTITIONS) + b"".join(struct.pack(">i", partition) for partition in range(PARTITIONS))
    reader = client.call(OFFSET_FETCH, 2, body, flexible=False)

    def one() -> tuple[int, int]:
        partition, offset = reader.number(4), reader.number(8)
        reader.take(reader.number(2))
        reader.number(2)
        return partition, offset

    found = topic(reader, one)
    code = reader.number(2)
    if not code and sorted(found) != [(partition, partition + 1) for partition in range(PARTITIONS)]:
        raise ProtocolError(f"the offsets of {group} are not those that were committed: {sorted(found)[:5]}")
    return code


def topic(reader: Reader, element: Callable[[], tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the result of `element` for each partition of the only topic; empty without a topic."""
    found = []
    for _ in range(reader.number(4)):
        reader.take(reader.number(2))
        found += [element() for _ in range(reader.number(4))]
    return found
