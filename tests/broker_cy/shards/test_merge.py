"""One page of metrics from those of several shards."""

from __future__ import annotations

from broker_cy.metrics.exposition import Page
from broker_cy.metrics.histogram import Histogram
from broker_cy.shards.merge import Merger, parse


def page(requests: int, topics: int, connections: int, lag_ns: int) -> bytes:
    found = Page()
    found.one("broker_cy_requests_total", requests, "Produce")
    found.one("broker_cy_topics", topics)
    found.one("broker_cy_connections", connections, "PLAINTEXT")
    found.family("broker_cy_loop_lag_seconds")
    histogram = Histogram()
    histogram.observe_ns(lag_ns)
    found.histogram("broker_cy_loop_lag_seconds", histogram.snapshot())
    found.one("process_cpu_seconds_total", requests / 4)
    return found.encode()


def values(merged: bytes) -> dict[str, float]:
    return dict(parse(merged))


def test_sums_and_labels() -> None:
    """If this fails, dashboards show a wrong number for the node."""
    merger = Merger()
    merger.note(0, 100, page(5, 3, 2, 1_000))
    merger.note(1, 101, page(7, 3, 1, 5_000_000))
    merged = merger.render({0: True, 1: True}, {"broker_cy_shard_up": {0: 1, 1: 1}})
    found = values(merged)
    assert found['broker_cy_requests_total{api="Produce"}'] == 12
    assert found['broker_cy_connections{listener="PLAINTEXT"}'] == 3
    assert found["process_cpu_seconds_total"] == 3.0
    assert (found['broker_cy_topics{shard="0"}'], found['broker_cy_topics{shard="1"}']) == (3, 3)
    assert "broker_cy_topics" not in found
    assert found["broker_cy_loop_lag_seconds_count"] == 2
    assert found['broker_cy_loop_lag_seconds_bucket{le="+Inf"}'] == 2
    assert abs(found["broker_cy_loop_lag_seconds_sum"] - 0.005001) < 1e-9
    assert found['broker_cy_shard_up{shard="1"}'] == 1
    lines = merged.decode().splitlines()
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_a_restart_takes_nothing_away() -> None:
    """If this fails, sums fall when a shard is started again, and rates over them jump by all that was counted."""
    merger = Merger()
    merger.note(0, 100, page(5, 3, 2, 1_000))
    merger.note(1, 101, page(7, 3, 1, 1_000))
    merger.note(0, 100, page(6, 3, 2, 1_000))
    # Shard 1 has ended: its counters stay, its gauges do not.
    found = values(merger.render({0: True}, {}))
    assert found['broker_cy_requests_total{api="Produce"}'] == 13
    assert found['broker_cy_connections{listener="PLAINTEXT"}'] == 2
    assert 'broker_cy_topics{shard="1"}' not in found
    merger.note(1, 102, page(1, 3, 4, 1_000))
    found = values(merger.render({0: True, 1: True}, {}))
    assert found['broker_cy_requests_total{api="Produce"}'] == 14
    assert found["broker_cy_loop_lag_seconds_count"] == 3
    assert found['broker_cy_connections{listener="PLAINTEXT"}'] == 6
    merger.note(1, 103, page(1, 3, 4, 1_000))
    assert values(merger.render({0: True, 1: True}, {}))['broker_cy_requests_total{api="Produce"}'] == 15


def produced(**records: int) -> bytes:
    found = Page()
    found.one("broker_cy_requests_total", 1, "Produce")
    found.family("broker_cy_partition_appended_records_total")
    for topic, count in records.items():
        found.sample("broker_cy_partition_appended_records_total", count, topic, "0")
    return found.encode()


def test_counters_of_deleted_topics_are_forgotten() -> None:
    """If this fails, the parent's memory grows with each topic that ever was, whenever a shard is started again."""
    merger = Merger()
    pids = iter(range(100, 10_000))
    merger.note(1, next(pids), produced(stays=1))
    for number in range(50):
        merger.note(0, next(pids), produced(stays=1, **{f"t{number}": 5}))
    found = values(merger.render({0: True, 1: True}, {}))
    assert found['broker_cy_partition_appended_records_total{topic="stays",partition="0"}'] == 51
    assert found['broker_cy_requests_total{api="Produce"}'] == 51
    # Those of the process before, which may come back, and of the present one.
    assert {name for name in found if "topic" in name and "stays" not in name} == {
        f'broker_cy_partition_appended_records_total{{topic="t{number}",partition="0"}}' for number in (48, 49)
    }
    assert len(merger._former) < 5


def test_labels_with_special_characters() -> None:
    """If this fails, a client id breaks the page."""
    pages = {}
    for shard in range(2):
        found = Page()
        found.one("broker_cy_client_connections", 1, 'a "b" {c=",}\\ \n 1')
        found.one("broker_cy_partition_high_watermark", 4, "a b", "0")
        pages[shard] = found.encode()
    merged = values(Merger.merge(pages))
    assert merged['broker_cy_client_connections{client_id="a \\"b\\" {c=\\",}\\\\ \\n 1"}'] == 2
    assert merged['broker_cy_partition_high_watermark{topic="a b",partition="0",shard="1"}'] == 4
