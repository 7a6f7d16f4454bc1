"""The kernel's statistics of this process."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

from broker_cy.core.classes import NamedTuple

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ProcessStats(NamedTuple):
    """Counters since the start of the process, and current values; times in seconds."""

    cpu_s: float
    resident_bytes: int
    virtual_bytes: int
    open_fds: int
    max_fds: int
    start_time_s: float
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    disk_read_bytes: int
    disk_written_bytes: int


def read() -> ProcessStats:
    """Read /proc/self; values that this kernel does not count are 0."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    virtual, resident = Path("/proc/self/statm").read_text(encoding="ascii").split()[:2]
    io = _io()
    return ProcessStats(
        cpu_s=usage.ru_utime + usage.ru_stime,
        resident_bytes=int(resident) * _PAGE_BYTES,
        virtual_bytes=int(virtual) * _PAGE_BYTES,
        open_fds=_open_fds(),
        max_fds=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        start_time_s=_start_time_s(),
        minor_faults=usage.ru_minflt,
        major_faults=usage.ru_majflt,
        voluntary_switches=usage.ru_nvcsw,
        involuntary_switches=usage.ru_nivcsw,
        disk_read_bytes=io.get("read_bytes", 0),
        disk_written_bytes=io.get("write_bytes", 0),
    )


def _open_fds() -> int:
    """Linux 6.2 and later have the number as the size of the directory; a list of 10,000 takes 10 ms."""
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))


def _io() -> dict[str, int]:
    try:
        text = Path("/proc/self/io").read_text(encoding="ascii")
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(": ") for line in text.splitlines())}


def _start_time_s() -> float:
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    since_boot = int(fields[19]) / _TICKS_PER_S
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot
