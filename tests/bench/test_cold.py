"""The cold workload: it must not pass warm reads for cold ones, nor fill a disk that has no room for it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bench import cold
from bench.raw import LoadError
from bench.targets import BrokerCy, TargetError
from bench.workloads import QUICK
from broker_cy.storage import page_cache

SMALL = replace(QUICK, cold_bytes=20_000_000, latency_s=0.5)


def is_cached(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        return page_cache.cached(fd, 0, path.stat().st_size)
    finally:
        os.close(fd)


def evictable(directory: Path) -> bool:
    """Whether the files of this directory can leave memory (those of a tmpfs cannot)."""
    probe = directory / "probe"
    probe.write_bytes(bytes(100_000))
    cold.evict(directory)
    gone = not is_cached(probe)
    probe.unlink()
    return gone


def test_reads_are_cold_and_the_backlog_is_removed(tmp_path: Path) -> None:
    """Every byte that the consumer got came from the disk, both loads were measured, and 20 GB do not stay behind."""
    if not evictable(tmp_path):
        pytest.skip(f"the file system of {tmp_path} keeps its files in memory")
    workload = cold.Cold(SMALL)
    with BrokerCy(tmp_path / "data").running() as target:
        workload.prepare(target)
        metrics = workload.measure(target)
        workload.clean(target)
        assert not list(target.directory.glob(f"{cold.Cold.topic}-*"))
    assert metrics["disk_gb"] * 1e9 >= cold.COLD_SHARE_MIN * SMALL.cold_bytes
    assert metrics["p99_ratio"] == metrics["p99_cold_ms"] / metrics["p99_alone_ms"] > 0


def test_warm_reads_fail_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing could be evicted the figure would be one of the page cache."""
    monkeypatch.setattr(cold, "evict", lambda directory: None)
    workload = cold.Cold(SMALL)
    with BrokerCy(tmp_path / "data").running() as target:
        workload.prepare(target)
        with pytest.raises(LoadError, match="in memory"):
            workload.measure(target)


def test_disk_without_room(tmp_path: Path) -> None:
    """A full disk is said before anything is written."""
    target = BrokerCy(tmp_path)
    with pytest.raises(TargetError, match="must be free"):
        cold.Cold(replace(QUICK, cold_bytes=1 << 60)).prepare(target)
    assert list(tmp_path.iterdir()) == []
