"""A measured window: what the driver counted and what the target's process used meanwhile, in one piece or in many.

Many short pieces keep two things out of a figure. A host takes back pages that are free for two seconds, so that
memory is warm only for a window that follows its warming at once. And a host that stops the machine for 20 ms decides
the p99 of a minute, but only of some of its seconds.
"""

import statistics
from collections.abc import Callable

from bench import proc
from bench.histogram import Histogram
from bench.raw import Driver

GB = 1e9
Metrics = dict[str, float]


class Window:
    """Sums over pieces; `metrics` gives the metrics every workload has."""

    def __init__(self, driver: Driver, pid: int) -> None:
        self.driver = driver
        self.pid = pid
        self.responses = 0
        self.bytes = 0
        self.seconds = 0.0
        self.generator_s = 0.0
        self.used: list[proc.Usage] = []
        self.latency, self.lateness = Histogram(), Histogram()
        self.p99s_ms: list[float] = []

    def run(self, piece: Callable[[], None]) -> None:
        """Measure `piece`, which runs the driver once."""
        before = proc.usage(self.pid)
        piece()
        self.used.append(proc.usage(self.pid) - before)
        driver = self.driver
        self.responses += driver.responses
        self.bytes += driver.bytes
        self.seconds += driver.seconds
        self.generator_s += driver.cpu_seconds
        self.latency.merge(driver.latency)
        self.lateness.merge(driver.lateness)
        self.p99s_ms.append(driver.latency.percentile(99) / 1e6)

    def metrics(self) -> Metrics:
        """`generator_share` near 1 says that the load was the limit; `p99_typical_ms` is the median piece's p99."""
        used = proc.total(self.used)
        return {
            "per_second": self.responses / self.seconds,
            "cpu_us": used.cpu_s / self.responses * 1e6,
            "cpu_s_per_gb": used.cpu_s / (self.bytes / GB),
            "mb_per_s": self.bytes / self.seconds / 1e6,
            "cores": used.cpu_s / self.seconds,
            "system_share": used.system_s / max(used.system_s + used.user_s, 1e-9),
            "generator_share": self.generator_s / self.seconds,
            "faults": used.minor_faults / self.responses,
            "switches": (used.voluntary_switches + used.involuntary_switches) / self.responses,
            "disk_read_share": used.read_bytes / self.bytes,
            "p50_ms": self.latency.percentile(50) / 1e6,
            "p99_ms": self.latency.percentile(99) / 1e6,
            "p999_ms": self.latency.percentile(99.9) / 1e6,
            "p99_typical_ms": statistics.median(self.p99s_ms),
            "max_ms": self.latency.highest / 1e6,
            "negative_samples": self.latency.negative,
        }

    def lateness_metrics(self) -> Metrics:
        """How late the generator itself handed requests to the kernel, for an open loop."""
        return {
            "late_p50_ms": self.lateness.percentile(50) / 1e6,
            "late_p99_ms": self.lateness.percentile(99) / 1e6,
            "late_p999_ms": self.lateness.percentile(99.9) / 1e6,
        }
