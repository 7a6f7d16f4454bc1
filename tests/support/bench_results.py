"""Results as a driver returns them, with round numbers."""

from bench.drivers.base import DriverResult, Sample
from bench.measuring import proc
from bench.measuring.histogram import Histogram
from bench.report import measured
from bench.report.result import Document, Run, TargetInfo, WarmUp, WorkloadInfo

MS = 1_000_000


def latencies(scale: float = 1.0, count: int = 250) -> Histogram:
    """1, 2, 3 and 4 ms times `scale`, in turn."""
    histogram = Histogram()
    for number in range(count):
        histogram.add(int((number % 4 + 1) * MS * scale))
    return histogram


def driver_result(scale: float = 1.0) -> DriverResult:
    """One second: 1,000 requests of 10 records of 100 bytes, in four samples."""
    samples = [Sample(0.25 * (n + 1), 2500, 250_000, 250, 0, latencies(scale)) for n in range(4)]
    whole = Histogram()
    for sample in samples:
        whole.merge(sample.latency)
    return DriverResult(
        records=10_000, bytes=1_000_000, requests=1000, seconds=1.0, latency=whole, cpu_s=0.2, samples=samples
    )


def spent(cores: float = 0.5) -> measured.Spent:
    """Half a core and 40 to 50 MB over the second that began at 100 s."""
    usage = proc.Usage(
        cpu_s=cores, user_s=0.3, system_s=0.1, minor_faults=10, major_faults=0, voluntary_switches=5,
        involuntary_switches=2, written_bytes=1_000_000, read_bytes=0, disk_written_bytes=1_000_000,
    )  # fmt: skip
    samples = [proc.Sampled(100 + t / 2, 7 + cores * t / 2, (40 + 5 * t) * 1_000_000, 30) for t in range(3)]
    return measured.Spent(usage, samples, 64_000_000, 30, False, 100.0)


def document(repeats: int = 4, labels: tuple[str, ...] = ("",)) -> Document:
    """A compare of two targets; b takes twice as long and costs twice as much."""
    runs: list[Run] = []
    for label in labels:
        for pair in range(repeats):
            for target, factor in (("ours", 1.0), ("kafka", 2.0)):
                wobble = factor * (1 + 0.01 * pair)
                runs.append(
                    measured.run_of(
                        driver_result(wobble), target=target, started="2026-01-02T03:04:05.678+00:00",
                        spent=spent(wobble / 4), pair=pair, label=label,
                    )
                )  # fmt: skip
    return Document(
        mode="compare",
        provenance={"kernel": "6.1", "cpu": "2 x some processor", "versions": {"ours": "broker-cy 0.1.0"}},
        workload=WorkloadInfo("produce-100b", "produce-100b.toml", {"driver": "raw", "record_size": {"least": 100}}),
        targets={
            "ours": TargetInfo("ours", "0.1.0"),
            "kafka": TargetInfo("kafka", "4.3.1", {"log.retention.ms": "-1"}),
        },
        runs=tuple(runs),
        pairs=tuple(measured.pairs_of(runs, "ours", "kafka", ["p99_ms", "cpu_s_per_gb", "records_per_s"])),
        warm_ups=(
            WarmUp("ours", "", "records_per_s", True, 60.0, 4.5, (10_000.0, 10_100.0, 10_050.0)),
            WarmUp("kafka", "", "records_per_s", False, 60.0, 60.0, (1_000.0, 4_000.0, 5_000.0)),
        ),
    )
