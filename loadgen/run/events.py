"""The events of the cluster during a run, as it reports them: the records of broker-cy's `__cluster_events`.

Apache Kafka has no such topic and therefore no events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_cy.client.event_text import kind_of, line_of, subject_of
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.metrics.events import ROUTINE, TOPIC, Stamped, decode
from broker_cy.wire import messages
from broker_cy.wire.records import decode_batches
from loadgen.net.cluster import EARLIEST, FETCH_BY_NAME, LATEST, Cluster, Refused, check
from loadgen.net.connection import Address, NetError

CLIENT_ID = "broker-load"
# The most events of a run that are reported, the first ones.
EVENTS_MAX = 10_000
FETCH_BYTES = 4 << 20
# The decompressed size of one batch; a batch that claims more is damaged.
PAYLOAD_BYTES_MAX = 64 << 20
READ_UNCOMMITTED = 0


class ClusterEvents:
    """Created before a run, when it notes the end of the topic. Raises NetError and Refused.

    Commits of groups are events, too, up to one a second and partition; they are left out.
    """

    def __init__(self, bootstrap: Sequence[Address], timeout_s: float) -> None:
        self._bootstrap, self._timeout_s = tuple(bootstrap), timeout_s
        self._starts: dict[int, int] = {}
        cluster = self._cluster()
        try:
            self._starts = self._offsets(cluster, LATEST)
        finally:
            cluster.close()

    def _cluster(self) -> Cluster:
        return Cluster(self._bootstrap, CLIENT_ID, self._timeout_s)

    def _offsets(self, cluster: Cluster, timestamp: int) -> dict[int, int]:
        """Return an offset of each partition of the topic; none if there is no such topic."""
        (found,) = cluster.refresh([TOPIC]).topics
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return {}
        check(found.error_code, f"Metadata of {TOPIC}")
        return cluster.offsets(TOPIC, [each.partition_index for each in found.partitions], timestamp)

    def since(self, begun_ms: int, warm_up_s: float) -> list[dict[str, Any]]:
        """Return the events since `begun_ms` (ms since 1970, by the brokers' clocks), in the order of their times.

        Each has `second` (of the measurement: negative in the warm-up), `kind` and `text`. If they cannot be read, that
        is the only event.
        """
        cluster = self._cluster()
        try:
            found = self._read(cluster)
        except (NetError, Refused, WireError, ValueError) as error:
            return [{"second": 0.0, "kind": "events unknown", "text": f"{TOPIC} cannot be read: {error}"}]
        finally:
            cluster.close()
        found = [each for each in found if each.time_ms >= begun_ms]
        found.sort(key=lambda each: each.time_ms)
        return [_entry(each, begun_ms, warm_up_s) for each in found[:EVENTS_MAX]]

    def _read(self, cluster: Cluster) -> list[Stamped]:
        ends = self._offsets(cluster, LATEST)
        # A restarted broker, or retention, may have moved the beginning.
        firsts = self._offsets(cluster, EARLIEST)
        found: list[Stamped] = []
        for partition, end in ends.items():
            at = max(self._starts.get(partition, 0), firsts[partition])
            while at < end and len(found) < EVENTS_MAX:
                following = self._fetch(cluster, partition, at, found)
                if following <= at:
                    break
                at = following
        return found

    def _fetch(self, cluster: Cluster, partition: int, at: int, found: list[Stamped]) -> int:
        """Add the events of one Fetch answer; returns the next offset."""
        part = messages.FetchRequest.FetchPartition(
            partition=partition, fetch_offset=at, partition_max_bytes=FETCH_BYTES
        )
        request = messages.FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_UNCOMMITTED,
            session_epoch=-1,
            topics=[messages.FetchRequest.FetchTopic(topic=TOPIC, partitions=[part])],
        )
        answer = cluster.leader(TOPIC, partition).call(request, messages.FetchResponse, at_most=FETCH_BY_NAME)
        check(answer.error_code, f"Fetch of {TOPIC}")
        data = answer.responses[0].partitions[0]
        check(data.error_code, f"Fetch of {TOPIC}-{partition}")
        for batch in decode_batches(data.records or b""):
            for record in [] if batch.is_control else batch.records(PAYLOAD_BYTES_MAX):
                event = decode(record.value) if record.offset >= at and record.value is not None else None
                if event is not None and event.event.TYPE not in ROUTINE:
                    found.append(event)
            at = max(at, batch.last_offset + 1)
        return at


def _entry(stamped: Stamped, begun_ms: int, warm_up_s: float) -> dict[str, Any]:
    event = stamped.event
    return {
        "second": (stamped.time_ms - begun_ms) / 1000 - warm_up_s,
        "kind": kind_of(event),
        "text": f"{subject_of(stamped)}: {line_of(event)}",
    }
