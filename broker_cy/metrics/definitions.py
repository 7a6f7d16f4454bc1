"""Every metric of a broker, with its type, labels and meaning. docs/metrics.md is generated from this table.

Names and units follow the Prometheus conventions (base units, `_total` for counters); the metrics of a process have the
names of the Prometheus client libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One family of time series."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


_PARTITION = ("topic", "partition")

_TABLE: tuple[Metric, ...] = (
    Metric(
        "broker_cy_build_info",
        "gauge",
        ("version", "node_id", "cluster_id"),
        "Always 1; the labels identify the broker.",
    ),
    # requests
    Metric("broker_cy_requests_total", "counter", ("api",), "Requests handled."),
    Metric("broker_cy_request_errors_total", "counter", ("api", "error"), "Error codes in answers, by Kafka's names."),
    Metric("broker_cy_request_bytes_total", "counter", ("api",), "Bytes of requests, with their length."),
    Metric("broker_cy_response_bytes_total", "counter", ("api",), "Bytes of answers, with their length."),
    Metric(
        "broker_cy_request_phase_seconds",
        "histogram",
        ("api", "phase"),
        "Time of requests: queue (received, until its handler starts), handler, disk (waiting for a write, a sync or a"
        " cold read), data (waiting for records), other (waiting for a task, such as a group's members), send, and"
        " total (received until the socket took the whole answer).",
    ),
    # connections
    Metric("broker_cy_connections", "gauge", ("listener",), "Open connections."),
    Metric("broker_cy_connections_opened_total", "counter", (), "Connections accepted."),
    Metric("broker_cy_connections_closed_total", "counter", (), "Connections closed."),
    Metric(
        "broker_cy_client_connections",
        "gauge",
        ("client_id",),
        "Open connections whose last request had this client id.",
    ),
    Metric("broker_cy_client_requests", "gauge", ("client_id",), "Requests so far on those connections."),
    Metric("broker_cy_client_received_bytes", "gauge", ("client_id",), "Bytes received so far on those connections."),
    Metric("broker_cy_client_sent_bytes", "gauge", ("client_id",), "Bytes sent so far on those connections."),
    # topics
    Metric("broker_cy_topics", "gauge", (), "Topics, internal ones included."),
    Metric("broker_cy_partitions", "gauge", (), "Partitions of this broker."),
    Metric("broker_cy_partitions_offline", "gauge", (), "Partitions whose log cannot be served."),
    Metric("broker_cy_partition_appended_batches_total", "counter", _PARTITION, "Batches appended since the start."),
    Metric("broker_cy_partition_appended_records_total", "counter", _PARTITION, "Records appended since the start."),
    Metric("broker_cy_partition_appended_bytes_total", "counter", _PARTITION, "Bytes of batches appended."),
    Metric("broker_cy_partition_fetches_total", "counter", _PARTITION, "Fetches that got records."),
    Metric("broker_cy_partition_fetched_bytes_total", "counter", _PARTITION, "Bytes of records returned to fetches."),
    Metric("broker_cy_partition_log_start_offset", "gauge", _PARTITION, "First offset that can be read."),
    Metric("broker_cy_partition_high_watermark", "gauge", _PARTITION, "First offset that cannot be read yet."),
    Metric("broker_cy_partition_log_end_offset", "gauge", _PARTITION, "Offset of the next record."),
    Metric("broker_cy_partition_log_size_bytes", "gauge", _PARTITION, "Bytes of the segment files."),
    Metric("broker_cy_partition_segments", "gauge", _PARTITION, "Segments of the log."),
    Metric("broker_cy_partition_producers", "gauge", _PARTITION, "Idempotent producers whose state is kept."),
    Metric(
        "broker_cy_partition_undecided_offsets",
        "gauge",
        _PARTITION,
        "Offsets between the last stable offset and the high watermark: hidden by open transactions.",
    ),
    # coordinators
    Metric("broker_cy_groups", "gauge", ("state",), "Consumer groups of this coordinator."),
    Metric("broker_cy_group_members", "gauge", (), "Members of all groups."),
    Metric("broker_cy_group_commits_total", "counter", (), "Offsets that groups committed, one for each partition."),
    Metric("broker_cy_group_rebalances_total", "counter", (), "Rebalances of groups that were completed."),
    Metric("broker_cy_transactional_ids", "gauge", ("state",), "Transactional ids of this coordinator."),
    Metric("broker_cy_transaction_oldest_seconds", "gauge", (), "Age of the oldest open transaction; 0 for none."),
    # storage
    Metric("broker_cy_fetches_from_memory_total", "counter", (), "Fetches whose records were all in the page cache."),
    Metric("broker_cy_fetches_from_disk_total", "counter", (), "Fetches with records that were read from the disk."),
    Metric("broker_cy_fetched_bytes_from_memory_total", "counter", (), "Bytes of records of the former."),
    Metric("broker_cy_fetched_bytes_from_disk_total", "counter", (), "Bytes of records of the latter."),
    Metric("broker_cy_sync_rounds_total", "counter", (), "Rounds of group commit (flush.messages)."),
    Metric("broker_cy_synced_files_total", "counter", (), "Files and directories synced in them."),
    Metric("broker_cy_sync_round_seconds", "histogram", (), "How long a round of group commit took."),
    Metric("broker_cy_unflushed_bytes", "gauge", (), "Bytes written and not synced yet."),
    Metric("broker_cy_log_directory_free_bytes", "gauge", ("directory",), "Free space of the file system."),
    Metric("broker_cy_log_directory_total_bytes", "gauge", ("directory",), "Size of the file system."),
    # the process
    Metric("broker_cy_loop_lag_seconds", "histogram", (), "How late a timer of the event loop fires, each 100 ms."),
    Metric("broker_cy_page_faults_total", "counter", ("kind",), "Page faults of the process, minor and major."),
    Metric("broker_cy_context_switches_total", "counter", ("kind",), "Context switches, voluntary or not."),
    Metric("broker_cy_disk_read_bytes_total", "counter", (), "Bytes that the process read from the disk."),
    Metric("broker_cy_disk_written_bytes_total", "counter", (), "Bytes that the process wrote to the disk."),
    Metric("process_cpu_seconds_total", "counter", (), "User and system time."),
    Metric("process_resident_memory_bytes", "gauge", (), "Resident memory."),
    Metric("process_virtual_memory_bytes", "gauge", (), "Address space."),
    Metric("process_open_fds", "gauge", (), "Open file descriptors."),
    Metric("process_max_fds", "gauge", (), "Limit of open file descriptors."),
    Metric("process_start_time_seconds", "gauge", (), "When the process started, since 1970."),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}
