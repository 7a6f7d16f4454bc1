"""What one process used, from the kernel: the broker's own cost, apart from the load's."""

import os
import time
from pathlib import Path
from typing import NamedTuple

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# clock_getcpuclockid(3): ~pid << 3 | 2 is the scheduler's nanosecond clock of all the threads of pid.
CPUCLOCK_SCHED = 2
GATHERED = 5  # requests that one connection has in flight, and that a broker may write in one piece
LARGE_WRITE = 128 << 10  # above, gathering does not change the folios any more


class Usage(NamedTuple):
    """Counters of a process since its start; `-` gives those of a window."""

    cpu_s: float  # all threads, also those that ended; nanosecond resolution
    user_s: float  # user and system are counted in clock ticks (10 ms): good for their ratio only
    system_s: float
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    written_bytes: int  # handed to write calls (wchar)
    read_bytes: int  # fetched from the disk (read_bytes): above 0 means that reads were cold

    def __sub__(self, before: object) -> "Usage":
        if not isinstance(before, Usage):
            return NotImplemented
        return Usage._make(b - a for a, b in zip(before, self, strict=True))


def usage(pid: int) -> Usage:
    """Read /proc/PID/{stat,status,io}; raises FileNotFoundError or OSError where the process is gone."""
    cpu_s = time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    voluntary = involuntary = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        fields = _fields(status)
        voluntary += fields.get("voluntary_ctxt_switches", 0)
        involuntary += fields.get("nonvoluntary_ctxt_switches", 0)
    io = _fields(Path(f"/proc/{pid}/io"))
    return Usage(
        cpu_s,
        int(stat[11]) * TICK_S,
        int(stat[12]) * TICK_S,
        int(stat[7]),
        int(stat[9]),
        voluntary,
        involuntary,
        io["wchar"],
        io["read_bytes"],
    )


def resident_bytes(pid: int) -> int:
    """Resident set (VmRSS), file pages that the process maps included."""
    return _fields(Path(f"/proc/{pid}/status"))["VmRSS"] * 1024


def private_bytes(pid: int) -> int:
    """Resident pages no other process shares and no file backs up (smaps_rollup: Anonymous)."""
    return _fields(Path(f"/proc/{pid}/smaps_rollup"))["Anonymous"] * 1024


def _fields(path: Path) -> dict[str, int]:
    """`Name:  number [unit]` lines; lines without a number are left out, and a thread that just ended gives none."""
    try:
        lines = path.read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        if "/task/" not in str(path):
            raise
        return {}
    pairs = (line.partition(":")[::2] for line in lines)
    return {name: int(words[0]) for name, rest in pairs if (words := rest.split()) and words[0].isdigit()}


def warm_memory(directory: Path, size_bytes: int, write_bytes: int) -> None:
    """Write and delete scratch files, so that the window finds its pages with the guest and not with the hypervisor.

    A virtual machine pays for the first touch of each page: 2.3 CPU-s/GB of fresh page cache, 0.36 once it is warm. The
    size of a write chooses the sizes of the page cache's folios, and the allocator hands out small blocks that are cold
    before it splits large ones that are warm. So there is one file in pieces as large as the window's own, and, where
    those are small, one in pieces as large as a broker makes of some of them; each as long as what the window writes.
    """
    pieces = {write_bytes, write_bytes * GATHERED} if write_bytes < LARGE_WRITE else {write_bytes}
    paths = {piece: directory / f"bench-warm-{piece}.scratch" for piece in pieces}
    try:
        for piece, path in paths.items():
            block = memoryview(bytearray(os.urandom(piece)))
            with open(path, "wb", buffering=0) as file:
                for _ in range(size_bytes * 5 // (4 * piece) + 1):  # a quarter more: sockets and journal take some
                    file.write(block)
    finally:
        for path in paths.values():
            path.unlink(missing_ok=True)
