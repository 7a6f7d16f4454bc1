"""The figures of a run by their names in the JSON document: label, unit, and which direction is better."""

from dataclasses import dataclass

from broker_cy.reporting.numbers import fixed


@dataclass(frozen=True)
class Metric:
    """The display of one figure."""

    label: str
    unit: str
    digits: int = 2
    higher_is_better: bool | None = False  # None: neither direction


LATENCIES = {"p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9", "p9999": "p99.99", "max": "max", "avg": "mean"}
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}

PARTITION_STALL = "stall_ms_partition_"  # followed by the partition's number
METRICS: dict[str, Metric] = {
    "records_per_s": Metric("Records", "/s", 0, True),
    "mb_per_s": Metric("Throughput", "MB/s", 1, True),
    "requests_per_s": Metric("Requests", "/s", 0, True),
    "transactions_per_s": Metric("Transactions", "/s", 0, True),
    "starts_per_s": Metric("Transactional ids started", "/s", 0, True),
    "retries_per_transaction": Metric("Requests repeated because the broker was not ready, per transaction", "", 3),
    "consumed_records_per_s": Metric("Records consumed", "/s", 0, True),
    "consumed_mb_per_s": Metric("Throughput consumed", "MB/s", 1, True),
    **{f"{name}_ms": Metric(f"Latency {text}", "ms", 3) for name, text in LATENCIES.items()},
    "p99_typical_ms": Metric("Latency p99 of the median quarter of a second", "ms", 3),
    "late_p99_ms": Metric("Send delay of the generator, p99", "ms", 3),
    **{f"e2e_{name}_ms": Metric(f"End to end {text}", "ms", 3) for name, text in LATENCIES.items()},
    **{f"commit_{name}_ms": Metric(f"End of transaction {text}", "ms", 3) for name, text in LATENCIES.items()},
    "cpu_s_per_gb": Metric("Broker CPU per GB", "s/GB", 3),
    "cpu_s_per_m_records": Metric("Broker CPU per million records", "s", 3),
    "cpu_s_per_k_transactions": Metric("Broker CPU per 1,000 transactions", "s", 3),
    "cpu_us_per_request": Metric("Broker CPU per request", "us", 2),
    "broker_cpu_s": Metric("Broker CPU", "s", 2, None),
    "broker_user_s": Metric("Broker CPU, user", "s", 2, None),
    "broker_system_s": Metric("Broker CPU, system", "s", 2, None),
    "rss_mb": Metric("Resident memory at the end", "MB", 1),
    "rss_peak_mb": Metric("Resident memory, peak", "MB", 1),
    "minor_faults": Metric("Page faults, minor", "", 0),
    "major_faults": Metric("Page faults, major", "", 0),
    "switches_voluntary": Metric("Context switches, voluntary", "", 0),
    "switches_involuntary": Metric("Context switches, involuntary", "", 0),
    "disk_read_mb": Metric("Read from disk", "MB", 1, None),
    "disk_written_mb": Metric("Written to disk", "MB", 1, None),
    "read_from_disk_share": Metric("Share of reads that came from disk", "", 3, None),
    "file_descriptors": Metric("File descriptors", "", 0),
    "generator_share": Metric("Load generator, share of a core", "", 2, None),
    "start_s": Metric("Start to first response", "s", 3),
    "start_cpu_s": Metric("CPU until the first response", "s", 3),
    "idle_connection_kb": Metric("Memory of an idle connection", "KiB", 2),
    "idle_mb": Metric("Resident memory at rest", "MB", 1),
    "through_mb": Metric("Resident memory after the log was written and read", "MB", 1),
    "committed_offsets": Metric("Committed offsets", "", 0, None),
    "offsets_loaded_s": Metric("Recovery to all committed offsets", "s", 3),
    "recovery_s": Metric("Recovery to first response", "s", 3),
    "first_write_s": Metric("Recovery to first acknowledged write", "s", 3),
    "first_fetch_s": Metric("Recovery to first fetched record", "s", 3),
    "all_partitions_s": Metric("Recovery to a write in every partition", "s", 3),
    "unsynced_mb": Metric("Not yet on the disk when the broker was killed", "MB", 0, None),
    "input_mb_per_s": Metric("Compaction input rate", "MB/s", 0, True),
    "compaction_cpu_s_per_gb": Metric("Broker CPU per GB of compaction input", "s/GB", 2),
    "compaction_s": Metric("Compaction time", "s", 2),
    "input_gb": Metric("Compaction input", "GB", 2, None),
    "left_mb": Metric("Log after compaction, with the active segment", "MB", 1),
    "left_records": Metric("Records after compaction", "", 0),
    "p99_to_alone": Metric("p99 beside other work, relative to p99 alone", "x", 2),
    "producers": Metric("Open producers", "", 0, None),
    "bytes_per_producer": Metric("Memory of an open producer", "bytes", 0),
    "depth": Metric("Requests in flight on a connection", "", 0, None),
    "syncs_per_s": Metric("Disk cache flushes", "/s", 0, None),
    "records_per_sync": Metric("Records per disk cache flush", "", 1, True),
    "rounds": Metric("Failures", "", 0, None),
    "gap_p50_ms": Metric("Gap, p50", "ms", 0),
    "gap_p99_ms": Metric("Gap, p99", "ms", 0),
    "gap_max_ms": Metric("Gap, longest", "ms", 0),
    "others_max_ms": Metric("Gap of other partitions, longest", "ms", 0),
    "before_p99_ms": Metric("p99 before", "ms", 1),
    "during_p99_ms": Metric("p99 during", "ms", 1),
    "after_p99_ms": Metric("p99 after", "ms", 1),
    "added_p99_ms": Metric("p99 during, above that before", "ms", 1),
    "leaders_shown_ms": Metric("Other leaders shown after", "ms", 0),
    "controller_shown_ms": Metric("Another controller shown after", "ms", 0),
    "errors": Metric("Errors of the client", "", 0),
    "moved_gb": Metric("Moved", "GB", 2, None),
    "move_s": Metric("Duration of the move", "s", 2),
    "move_mb_per_s": Metric("Rate of the move", "MB/s", 0, True),
    "limit_mb_per_s": Metric("Rate of one copy by loopback to the disk, or of the link", "MB/s", 0, None),
    "share_of_limit": Metric("Rate of the move, of that of the copy or link", "", 2, True),
    "drain_s": Metric("Time to drain the backlog", "s", 2),
    "stall_max_ms": Metric("Stall, longest of all partitions", "ms", 0),
    "stall_p50_ms": Metric("Stall, median partition", "ms", 0),
    "stalled_at_the_end": Metric("Partitions still stalled at the end of the step", "", 0),
    "consumed_again": Metric("Records consumed more than once", "", 0),
    "log_gb": Metric("Log", "GB", 2, None),
    "connections": Metric("Connections", "", 0, None),
    "partitions": Metric("Partitions", "", 0, None),
}


# Unit and digits of figures that are not in METRICS, by suffix; the longer suffix first.
UNITS = {
    "_bytes_per_s": ("B/s", 0),
    "_mb_per_s": ("MB/s", 0),
    "_a_core": ("/s", 0),
    "_per_s": ("/s", 0),
    "_percent": ("%", 2),
    "_ratio": ("x", 2),
    "_dropped": ("", 0),
    "_tasks": ("", 0),
    "_answers": ("", 0),
    "_commits": ("", 0),
    "_jobs": ("", 0),
    "_ms": ("ms", 1),
    "_kb": ("KB", 0),
    "_mb": ("MB", 1),
    "_gb": ("GB", 1),
    "_s": ("s", 2),
}


def describe(name: str) -> Metric:
    """Return the display of a figure; one that is not in METRICS is shown by its name."""
    if (number := name.removeprefix(PARTITION_STALL)) != name:
        return Metric(f"Stall of partition {number}", "ms", 0)
    if known := METRICS.get(name):
        return known
    suffix = next((each for each in UNITS if name.endswith(each)), "")
    label = name.removesuffix(suffix).replace("_", " ")
    return Metric(label, *UNITS.get(suffix, ("", 3)), higher_is_better=None)


def sides(name: str, a: float | None, b: float | None) -> str:
    """Format the two absolute values of a ratio, as in `612,000 : 98,000 /s`; empty if they are unknown."""
    if a is None or b is None:
        return ""
    return f"{text(name, a)} : {text(name, b)} {describe(name).unit}".rstrip()


def text(name: str, value: float) -> str:
    """Format a figure, without its unit."""
    return fixed(value, describe(name).digits)
