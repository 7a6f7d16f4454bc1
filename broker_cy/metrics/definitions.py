"""Every metric of a broker, with its type, labels and meaning. docs/metrics.md is generated from this table.

Names and units follow the Prometheus conventions (base units, `_total` for counters); the metrics of a process have the
names of the Prometheus client libraries. The file is long because it is one table.
"""

from __future__ import annotations

from typing import Literal

from broker_cy.core.classes import NamedTuple

Kind = Literal["counter", "gauge", "histogram"]


class Metric(NamedTuple):
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
    Metric(
        "broker_cy_openssl_info",
        "gauge",
        ("version",),
        "Always 1; the label is the version of the OpenSSL that TLS is linked with. Absent in a build without TLS.",
    ),
    # requests
    Metric("broker_cy_requests_total", "counter", ("api",), "Requests handled."),
    Metric(
        "broker_cy_request_errors_total",
        "counter",
        ("api", "error"),
        "Errors in responses, by the name of Kafka's error code.",
    ),
    Metric("broker_cy_request_bytes_total", "counter", ("api",), "Bytes of requests, including their length fields."),
    Metric("broker_cy_response_bytes_total", "counter", ("api",), "Bytes of responses, including their length fields."),
    Metric(
        "broker_cy_request_phase_seconds",
        "histogram",
        ("api", "phase"),
        "Time spent on requests: queue (from receipt until the handler starts), handler, disk (waiting for a write, a"
        " sync or a cold read), data (waiting for records), other (waiting for a task, such as a group's members),"
        " send, and total (from receipt until the socket accepted the whole response).",
    ),
    # connections
    Metric("broker_cy_connections", "gauge", ("listener",), "Open connections."),
    Metric("broker_cy_connections_opened_total", "counter", (), "Connections accepted."),
    Metric("broker_cy_connections_closed_total", "counter", (), "Connections closed."),
    Metric(
        "broker_cy_certificate_expiry_timestamp_seconds",
        "gauge",
        ("listener",),
        "Time at which the certificate of a listener expires, in seconds since 1970.",
    ),
    Metric(
        "broker_cy_tls_handshakes_total",
        "counter",
        ("listener", "result"),
        "TLS handshakes of clients; the result is success or failure.",
    ),
    Metric(
        "broker_cy_authentications_total",
        "counter",
        ("listener", "result"),
        "Logins of clients on listeners with SASL; the result is success or failure.",
    ),
    Metric(
        "broker_cy_reauthentications_total",
        "counter",
        ("listener", "result"),
        "Logins of clients that were already logged in (KIP-368); the result is success or failure.",
    ),
    Metric(
        "broker_cy_expired_sessions_total",
        "counter",
        ("listener",),
        "Connections closed because the client sent a request after its session expired, instead of logging in again.",
    ),
    Metric(
        "broker_cy_client_connections",
        "gauge",
        ("client_id",),
        "Open connections whose last request had this client id.",
    ),
    Metric(
        "broker_cy_client_requests",
        "gauge",
        ("client_id",),
        "Requests received so far on the open connections with this client id.",
    ),
    Metric(
        "broker_cy_client_received_bytes",
        "gauge",
        ("client_id",),
        "Bytes received so far on the open connections with this client id.",
    ),
    Metric(
        "broker_cy_client_sent_bytes",
        "gauge",
        ("client_id",),
        "Bytes sent so far on the open connections with this client id.",
    ),
    # quotas
    Metric("broker_cy_quotas", "gauge", ("quota",), "Quotas that are set, by their key."),
    Metric("broker_cy_quota_entities", "gauge", ("quota",), "Users, client ids and addresses whose use is counted."),
    Metric(
        "broker_cy_throttles_total",
        "counter",
        ("quota",),
        "Responses that throttled a client because of a quota, and connections refused because of one.",
    ),
    Metric(
        "broker_cy_throttle_seconds_total",
        "counter",
        ("quota",),
        "Time for which clients were throttled because of a quota.",
    ),
    Metric(
        "broker_cy_client_throttle_seconds",
        "gauge",
        ("quota", "user", "client_id"),
        "Time for which a client was throttled since the broker began to count it, for the 100 clients that were"
        " throttled longest; the user or the client id is empty if all of them share the quota.",
    ),
    Metric(
        "broker_cy_connections_throttled",
        "gauge",
        (),
        "Connections that the broker does not read now, because their client is throttled.",
    ),
    # topics
    Metric("broker_cy_topics", "gauge", (), "Topics, including internal ones."),
    Metric("broker_cy_partitions", "gauge", (), "Partitions of this broker."),
    Metric("broker_cy_partitions_offline", "gauge", (), "Partitions that are offline."),
    Metric(
        "broker_cy_partitions_unopened",
        "gauge",
        (),
        "Partitions whose logs the broker has not opened since its start. A request for one waits until it is open.",
    ),
    Metric(
        "broker_cy_partition_appended_batches_total",
        "counter",
        _PARTITION,
        "Batches appended since the start, without replication.",
    ),
    Metric(
        "broker_cy_partition_appended_records_total",
        "counter",
        _PARTITION,
        "Records appended since the start, without replication.",
    ),
    Metric("broker_cy_partition_appended_bytes_total", "counter", _PARTITION, "Bytes of these batches."),
    Metric(
        "broker_cy_partition_replicated_bytes_total",
        "counter",
        _PARTITION,
        "Bytes of batches that were appended here as a follower.",
    ),
    Metric("broker_cy_partition_fetches_total", "counter", _PARTITION, "Fetches of consumers that returned records."),
    Metric("broker_cy_partition_fetched_bytes_total", "counter", _PARTITION, "Bytes of these records."),
    Metric("broker_cy_partition_log_start_offset", "gauge", _PARTITION, "First offset that can be read."),
    Metric("broker_cy_partition_high_watermark", "gauge", _PARTITION, "First offset that consumers cannot read yet."),
    Metric("broker_cy_partition_log_end_offset", "gauge", _PARTITION, "Offset of the next record."),
    Metric("broker_cy_partition_log_size_bytes", "gauge", _PARTITION, "Bytes of the segment files."),
    Metric("broker_cy_partition_segments", "gauge", _PARTITION, "Segments of the log."),
    Metric("broker_cy_partition_producers", "gauge", _PARTITION, "Idempotent producers whose state is kept."),
    Metric(
        "broker_cy_partition_undecided_offsets",
        "gauge",
        _PARTITION,
        "Offsets between the last stable offset and the high watermark, which open transactions hide from"
        " read_committed.",
    ),
    # coordinators
    Metric(
        "broker_cy_groups",
        "gauge",
        ("protocol", "state"),
        "Groups of this coordinator; the protocol is classic, consumer, share or streams (Kafka: group-count,"
        " consumer-group-count, share-group-count, streams-group-count).",
    ),
    Metric("broker_cy_group_members", "gauge", (), "Members of all groups."),
    Metric("broker_cy_group_commits_total", "counter", (), "Offsets committed by groups, counted per partition."),
    Metric(
        "broker_cy_group_rebalances_total",
        "counter",
        ("protocol",),
        "Completed rebalances of classic groups, and epochs of consumer, share and streams groups (Kafka:"
        " group-completed-rebalance-count, consumer-group-rebalance-count, share-group-rebalance-count,"
        " streams-group-rebalance-count, and the rates).",
    ),
    Metric("broker_cy_transactional_ids", "gauge", ("state",), "Transactional ids of this coordinator."),
    Metric(
        "broker_cy_transaction_oldest_seconds", "gauge", (), "Age of the oldest open transaction; 0 if there is none."
    ),
    Metric("broker_cy_share_partitions", "gauge", (), "Share partitions whose state this coordinator keeps."),
    Metric(
        "broker_cy_share_state_write_seconds",
        "histogram",
        (),
        "Time of a write of share state, with its record (Kafka: write-rate, write-latency).",
    ),
    Metric(
        "broker_cy_share_state_pruned_offset",
        "gauge",
        _PARTITION,
        "Offset below which redundant share state was deleted last (Kafka: last-pruned-offset).",
    ),
    Metric("broker_cy_share_sessions", "gauge", (), "Share sessions of clients on this broker."),
    Metric(
        "broker_cy_share_served_partitions",
        "gauge",
        (),
        "Share partitions that this broker serves: a pair of a group and a partition that it leads.",
    ),
    Metric(
        "broker_cy_share_in_flight_records",
        "gauge",
        ("group", "topic", "partition"),
        "Records from the start offset of a share partition to its end offset that are not finished, for the 100 share"
        " partitions with most of them (Kafka: InFlightMessageCount).",
    ),
    Metric(
        "broker_cy_share_in_flight_batches",
        "gauge",
        ("group", "topic", "partition"),
        "Batches of records that were acquired together, from the start offset of a share partition on, for the same"
        " share partitions (Kafka: InFlightBatchCount).",
    ),
    Metric(
        "broker_cy_share_acknowledged_records_total",
        "counter",
        ("type",),
        "Records that members of share groups acknowledged (Kafka: RecordAcknowledgementsPerSec).",
    ),
    Metric(
        "broker_cy_share_delivered_records_total",
        "counter",
        (),
        "Deliveries of records to members of share groups.",
    ),
    Metric(
        "broker_cy_share_redelivered_records_total",
        "counter",
        (),
        "Deliveries of records that were delivered before.",
    ),
    Metric(
        "broker_cy_share_expired_locks_total",
        "counter",
        (),
        "Records whose lock ended without an acknowledgement (Kafka: AcquisitionLockTimeoutPerSec).",
    ),
    Metric(
        "broker_cy_share_records_of_ended_sessions_total",
        "counter",
        (),
        "Records that were released because the session of their member ended.",
    ),
    Metric(
        "broker_cy_share_records_at_limit_total",
        "counter",
        (),
        "Records that were archived after their last delivery.",
    ),
    Metric(
        "broker_cy_share_partition_load_seconds",
        "histogram",
        (),
        "Time to load the state of a share partition (Kafka: PartitionLoadTimeMs).",
    ),
    Metric(
        "broker_cy_share_group_in_flight_records",
        "gauge",
        ("group", "deliveries"),
        "Records of a share group that are not finished, by the number of their deliveries (`10+`: ten or more), in the"
        " 100 share partitions with most of them.",
    ),
    Metric(
        "broker_cy_share_group_last_attempt_records",
        "gauge",
        ("group",),
        "Records that a member of a share group has got for the last time: without an acknowledgement they are"
        " archived. In the same share partitions.",
    ),
    Metric(
        "broker_cy_share_group_archived_records_total",
        "counter",
        ("group", "cause"),
        "Records that are not delivered again although no member accepted them: `reject`, `limit` (of deliveries),"
        " `missing` (no longer in the log), `aborted` (transaction), `operator`. For the 100 share groups with most"
        " causes.",
    ),
    Metric(
        "broker_cy_share_group_returned_records_total",
        "counter",
        ("group", "cause"),
        "Records that became available again after a delivery: by `release`, `timeout` of their lock, the end of the"
        " `session`, an `operator`, the `redrive` of archived ones, or because another broker became the `leader`"
        " (counted by the former one, unless it failed). For the same share groups.",
    ),
    # mirrors of topics of other clusters
    Metric(
        "broker_cy_mirror_partitions",
        "gauge",
        ("link", "state"),
        "Partitions of mirrors that this broker leads, by state: active, waiting, paused or failed; promoted ones have"
        " an empty link.",
    ),
    Metric(
        "broker_cy_mirror_problem",
        "gauge",
        ("link", "topic", "partition", "cause"),
        "1 for a mirror that has a problem: it waits or has failed, or its topic has fewer partitions than the source"
        " (`fewer_partitions`).",
    ),
    Metric(
        "broker_cy_mirror_lag_records",
        "gauge",
        ("link", "topic", "partition"),
        "Records that the source had committed at its last answer, and the mirror has not.",
    ),
    Metric(
        "broker_cy_mirror_lag_seconds",
        "gauge",
        ("link", "topic", "partition"),
        "Time since the mirror had all that the source had committed, also while the source does not answer; absent if"
        " it never had, since this broker leads it.",
    ),
    Metric(
        "broker_cy_mirror_records_total",
        "counter",
        ("link", "topic", "partition"),
        "Records that were copied from the source since this broker leads the mirror.",
    ),
    Metric(
        "broker_cy_mirror_bytes_total",
        "counter",
        ("link", "topic", "partition"),
        "Bytes that were copied from the source since this broker leads the mirror.",
    ),
    # storage
    Metric("broker_cy_fetches_from_memory_total", "counter", (), "Fetches whose records were all in the page cache."),
    Metric("broker_cy_fetches_from_disk_total", "counter", (), "Fetches with records that were read from the disk."),
    Metric("broker_cy_fetched_bytes_from_memory_total", "counter", (), "Bytes of records fetched from the page cache."),
    Metric("broker_cy_fetched_bytes_from_disk_total", "counter", (), "Bytes of records fetched from the disk."),
    Metric("broker_cy_sync_rounds_total", "counter", (), "Rounds of group commit (flush.messages)."),
    Metric("broker_cy_synced_files_total", "counter", (), "Files and directories synced by group commit."),
    Metric("broker_cy_sync_round_seconds", "histogram", (), "Duration of a round of group commit."),
    Metric("broker_cy_unflushed_bytes", "gauge", (), "Bytes written but not synced yet."),
    Metric("broker_cy_log_directory_free_bytes", "gauge", ("directory",), "Free space of the directory's file system."),
    Metric("broker_cy_log_directory_total_bytes", "gauge", ("directory",), "Size of the directory's file system."),
    Metric(
        "broker_cy_log_directory_offline",
        "gauge",
        ("directory",),
        "1 if the disk of the directory has failed (Kafka: LogDirectoryOffline; the sum: OfflineLogDirectoryCount).",
    ),
    Metric(
        "broker_cy_log_directory_unopened_logs",
        "gauge",
        ("directory",),
        "Logs that the broker has not opened since its start (Kafka: remainingLogsToRecover).",
    ),
    Metric(
        "broker_cy_log_directory_unchecked_segments",
        "gauge",
        ("directory",),
        "Segments that are still to be checked in the logs that are being opened (Kafka: remainingSegmentsToRecover,"
        " the sum of its threads).",
    ),
    Metric(
        "broker_cy_log_directory_cordoned",
        "gauge",
        ("directory",),
        "1 if the directory takes no new replicas (cordoned.log.dirs; Kafka: the sum is CordonedLogDirectoryCount).",
    ),
    Metric(
        "broker_cy_log_directory_arriving_replicas",
        "gauge",
        ("directory",),
        "Replicas that move to the directory from another one of the broker (AlterReplicaLogDirs).",
    ),
    # the metadata quorum
    Metric(
        "broker_cy_quorum_leader", "gauge", (), "Node id of the active controller, as this node knows it; -1 if none."
    ),
    Metric("broker_cy_quorum_epoch", "gauge", (), "Epoch of the metadata quorum, as this node knows it."),
    Metric("broker_cy_quorum_high_watermark", "gauge", (), "Offset below which this node knows metadata as committed."),
    Metric("broker_cy_metadata_offset", "gauge", (), "Offset of the last metadata record that this node has applied."),
    Metric("broker_cy_active_controller", "gauge", (), "1 if this node is the active controller, else 0."),
    # the process
    Metric("broker_cy_loop_lag_seconds", "histogram", (), "Delay of an event loop timer that fires every 100 ms."),
    Metric("broker_cy_page_faults_total", "counter", ("kind",), "Page faults of the process, minor and major."),
    Metric(
        "broker_cy_context_switches_total",
        "counter",
        ("kind",),
        "Context switches of the process, voluntary and involuntary.",
    ),
    Metric("broker_cy_disk_read_bytes_total", "counter", (), "Bytes that the process read from the disk."),
    Metric("broker_cy_disk_written_bytes_total", "counter", (), "Bytes that the process wrote to the disk."),
    Metric("process_cpu_seconds_total", "counter", (), "User and system CPU time of the process."),
    Metric("process_resident_memory_bytes", "gauge", (), "Resident memory of the process."),
    Metric("process_virtual_memory_bytes", "gauge", (), "Virtual memory of the process."),
    Metric("process_open_fds", "gauge", (), "Open file descriptors."),
    Metric("process_max_fds", "gauge", (), "Maximum number of open file descriptors."),
    Metric("process_start_time_seconds", "gauge", (), "Start time of the process, in seconds since 1970."),
    # the parent of shards
    Metric("broker_cy_shard_up", "gauge", ("shard",), "With --shards: 1 if the shard serves clients, else 0."),
    Metric("broker_cy_shard_starts_total", "counter", ("shard",), "With --shards: starts of the shard by this parent."),
    Metric(
        "broker_cy_shard_kills_total",
        "counter",
        ("shard",),
        "With --shards: how often this parent killed the shard, because it stood still or did not stop.",
    ),
    Metric("broker_cy_parent_cpu_seconds_total", "counter", (), "With --shards: CPU time of the parent process."),
    Metric("broker_cy_parent_resident_memory_bytes", "gauge", (), "With --shards: resident memory of the parent."),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}
