"""The broker's resource usage is sampled from outside, and the samples must survive the broker's end."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from bench.measuring.proc import Sampler

WAIT_S = 60.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    """A process that allocates 64 MB on request, and then keeps a CPU core busy."""
    code = "import sys; sys.stdin.read(1); held = b'x' * (64 << 20); print('held', flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_processor_memory_and_files_of_a_process(busy: subprocess.Popen[bytes]) -> None:
    """These are the report's lines of CPU and memory."""
    assert busy.stdin is not None
    assert busy.stdout is not None
    with Sampler(busy.pid, interval_s=0.02) as sampler:
        busy.stdin.write(b"g")
        busy.stdin.flush()
        busy.stdout.readline()
        seen = len(sampler.samples)
        until(lambda: len(sampler.samples) >= seen + 5)
    first, last = sampler.samples[0], sampler.samples[-1]
    assert not sampler.died
    assert last.cpu_s > first.cpu_s
    assert last.resident_bytes - first.resident_bytes > 60 << 20
    assert sampler.resident_peak_bytes >= last.resident_bytes
    assert sampler.files >= 3
    assert [sample.at_s for sample in sampler.samples] == sorted(sample.at_s for sample in sampler.samples)
    ended = len(sampler.samples)
    sampler.stop()
    assert len(sampler.samples) == ended


def test_a_process_that_dies_is_reported_and_ends_the_thread(busy: subprocess.Popen[bytes]) -> None:
    """A target that ends in the middle of a run fails the run; its parent has not waited for it, so it is still in
    /proc.
    """
    with Sampler(busy.pid, interval_s=0.02) as sampler:
        busy.kill()
        until(lambda: sampler.died)
    assert sampler.samples
    assert not any(thread.name == f"sampler-{busy.pid}" for thread in threading.enumerate())


def test_samples_are_bounded(busy: subprocess.Popen[bytes]) -> None:
    """A soak of days must not exhaust the memory: the interval grows instead."""
    with Sampler(busy.pid, interval_s=0.002, most=8) as sampler:
        began = sampler.samples[0]
        until(lambda: sampler.interval_s > 0.01)
    assert len(sampler.samples) <= 8
    assert sampler.samples[0] == began


def test_no_such_process_and_bad_intervals_are_refused(busy: subprocess.Popen[bytes]) -> None:
    busy.kill()
    busy.wait()
    with pytest.raises(OSError, match=r"."):
        Sampler(busy.pid)
    with pytest.raises(ValueError, match="allowed: above 0 s"):
        Sampler(busy.pid, interval_s=0)
