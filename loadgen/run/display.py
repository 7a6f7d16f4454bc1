"""Our figures in locust's own statistics: for its web page and its console only, never for a verdict."""

from __future__ import annotations

import time
from typing import Any

from locust import stats as locust_stats
from locust.stats import RequestStats, StatsEntry, StatsError

from loadgen.figures.totals import histogram_of

NS_PER_MS = 1_000_000
METHOD = "KAFKA"


def keep_fractions() -> None:
    """Let locust distinguish times below a millisecond: by default it rounds to whole ones (locust#3373)."""
    module: Any = locust_stats
    module.bucket_response_time = _bucket


def _bucket(response_time: float) -> float:
    """Round to two digits, as locust does from 100 ms on."""
    return float(f"{response_time:.2g}")


def show(stats: RequestStats, interval: dict[str, Any]) -> None:
    """Add a whole interval to locust's statistics, instead of one event for each operation."""
    now_s = time.time()
    for name, state in interval["operations"].items():
        failures = sum(state["errors"].values())
        latency = histogram_of(state["latency"])
        if not latency.count:
            continue
        entry: Any = StatsEntry(stats, name, METHOD)
        entry.start_time = stats.start_time or now_s
        entry.last_request_timestamp = now_s
        entry.num_requests, entry.num_failures = latency.count, failures
        buckets = [(_bucket(at_ns / NS_PER_MS), count) for at_ns, count in latency.buckets()]
        for at_ms, count in buckets:
            entry.response_times[at_ms] = entry.response_times.get(at_ms, 0) + count
        entry.total_response_time = latency.mean() / NS_PER_MS * latency.count
        entry.min_response_time, entry.max_response_time = min(buckets)[0], latency.highest / NS_PER_MS
        entry.total_content_length = state["bytes"]
        entry.num_reqs_per_sec[int(now_s)] = latency.count
        if failures:
            entry.num_fail_per_sec[int(now_s)] = failures
        stats.entries[(name, METHOD)].extend(entry)
        stats.total.extend(entry)
        for error, count in state["errors"].items():
            key = StatsError.create_key(METHOD, name, error)
            found = stats.errors.setdefault(key, StatsError(METHOD, name, error))
            found.occurrences += count
