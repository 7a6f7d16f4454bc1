"""`backlog` must not report warm reads as cold ones."""

import json
import os
from pathlib import Path

import pytest

from bench import cli
from bench.modes import backlog
from bench.window import page_cache
from broker_cy.storage import page_cache as kernel

WORKLOAD = """\
[records]
size = "1 KB"
[producers]
batch = "1 B"
rate = "500 requests/s"
[time]
warm_up = "100 ms"
steady = "0 s"
duration = "400 ms"
"""


def is_cached(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        return kernel.cached(fd, 0, path.stat().st_size)
    finally:
        os.close(fd)


def evictable(directory: Path) -> bool:
    """Return whether the files of this directory can be evicted from memory (those of a tmpfs cannot)."""
    probe = directory / "probe"
    probe.write_bytes(bytes(100_000))
    page_cache.evict(directory)
    gone = not is_cached(probe)
    probe.unlink()
    return gone


def measure(directory: Path) -> tuple[int, list[dict[str, object]]]:
    """Return exit code and runs of a small backlog."""
    (directory / "w.toml").write_text(WORKLOAD)
    out = directory / "out.json"
    argv = ["backlog", "-w", str(directory / "w.toml"), "-t", "ours", "--size", "20 MB", "--json-file", str(out)]
    code = cli.main([*argv, "--dir", str(directory / "data")])
    return code, json.loads(out.read_text())["runs"]


@pytest.mark.full
def test_reads_are_cold(tmp_path: Path) -> None:
    """Every byte that the consumer got came from the disk, and the tail latency is compared with that of producers
    alone.
    """
    if not evictable(tmp_path):
        pytest.skip(f"the file system of {tmp_path} keeps its files in memory")
    code, (_, beside, drain) = measure(tmp_path)
    assert code == 0
    assert drain["figures"]["disk_read_mb"] >= 20 * backlog.COLD_SHARE_MIN  # type: ignore[index]
    assert beside["figures"]["p99_to_alone"] > 0  # type: ignore[index]


@pytest.mark.full
def test_warm_reads_fail_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing could be evicted, the figure would be that of the page cache."""
    monkeypatch.setattr(backlog, "evict", lambda directory: None)
    code, runs = measure(tmp_path)
    assert code == 1
    assert "of the drained bytes came from the disk" in str(runs[-1]["failed"])
