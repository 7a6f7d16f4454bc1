"""Resources that one process used, from the kernel: the broker's own cost, separate from that of the load."""

import os
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# clock_getcpuclockid(3): ~pid << 3 | 2 is the scheduler's nanosecond clock of all the threads of pid.
CPUCLOCK_SCHED = 2
GATHERED = 5  # requests that one connection has in flight, and that a broker may combine into one write
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SAMPLE_S = 0.25
# For one Sampler: four hours at SAMPLE_S. When it is full, every second sample is dropped and the interval doubles.
MOST_SAMPLES = 57_600
LARGE_WRITE = 128 << 10  # above this, combining writes no longer changes the folios


class Usage(NamedTuple):
    """Counters of a process since its start; `-` gives those of a window."""

    cpu_s: float  # all threads, also those that ended; nanosecond resolution
    user_s: float  # user and system are counted in clock ticks (10 ms): only their ratio is meaningful
    system_s: float
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    written_bytes: int  # handed to write calls (wchar)
    read_bytes: int  # read from the disk (read_bytes): above 0 means that reads were cold
    disk_written_bytes: int  # dirtied pages (write_bytes): data that will reach the disk, without sockets

    def __sub__(self, before: object) -> "Usage":
        if not isinstance(before, Usage):
            return NotImplemented
        return Usage._make(b - a for a, b in zip(before, self, strict=True))


def total(parts: Iterable[Usage]) -> Usage:
    """Return the sum of several windows; zero for none."""
    nothing = Usage._make([0] * len(Usage._fields))
    return Usage._make(sum(each) for each in zip(nothing, *parts, strict=True))


def usage(pid: int) -> Usage:
    """Read /proc/PID/{stat,status,io}. Raises FileNotFoundError or OSError if the process has ended."""
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
        io["write_bytes"],
    )


def resident_bytes(pid: int) -> int:
    """Return the resident set (VmRSS), including mapped file pages."""
    return _fields(Path(f"/proc/{pid}/status"))["VmRSS"] * 1024


def proportional_bytes(pid: int) -> int:
    """Return the proportional set size: a page that n processes have counts as an nth part of it."""
    return _fields(Path(f"/proc/{pid}/smaps_rollup"))["Pss"] * 1024


def peak_resident_bytes(pid: int) -> int:
    """Return the highest resident set since the process began (VmHWM)."""
    return _fields(Path(f"/proc/{pid}/status"))["VmHWM"] * 1024


class Sampled(NamedTuple):
    """A process at one moment."""

    at_s: float  # time.monotonic
    cpu_s: float  # since its start
    resident_bytes: int
    files: int  # open descriptors


def sampled(pid: int) -> Sampled:
    """Sample a process now. Raises OSError if it has ended, also if only its exit status remains."""
    cpu_s = time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    if resident == 0:  # it has ended, and its parent has not waited for it; a live process has at least one page
        raise ProcessLookupError(f"process {pid} ended")
    files = Path(f"/proc/{pid}/fd")
    # Linux 6.2 and later report the number as the size of the directory, older versions only by listing it.
    return Sampled(time.monotonic(), cpu_s, resident, files.stat().st_size or len(os.listdir(files)))


def added(each: Sequence[Sequence[Sampled]]) -> list[Sampled]:
    """Return the sums of several processes that were sampled together, as many as all of them have."""
    return [
        Sampled(
            together[0].at_s,
            sum(one.cpu_s for one in together),
            sum(one.resident_bytes for one in together),
            sum(one.files for one in together),
        )
        for together in zip(*each, strict=False)
    ]


class Sampler:
    """A thread that samples a process every `interval_s` inside a `with` block, without requests to the broker.

    Afterwards, `samples` has all samples (the first and the last at the very ends of the block), and `died` is whether
    the process ended before. The constructor raises OSError if there is no such process.
    """

    def __init__(self, pid: int, interval_s: float = SAMPLE_S, most: int = MOST_SAMPLES) -> None:
        if interval_s <= 0 or most < 4:
            raise ValueError(f"a sample every {interval_s} s, at most {most} (allowed: above 0 s, at least 4)")
        self.pid = pid
        self.interval_s = interval_s
        self.most = most
        self.samples = [sampled(pid)]
        self.died = False
        self._peak_before = peak_resident_bytes(pid)
        self._peak_after = self._peak_before
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"sampler-{pid}", daemon=True)

    @property
    def resident_peak_bytes(self) -> int:
        """Highest resident set while it was sampled: the kernel's own if that rose, else the highest sample."""
        if self._peak_after > self._peak_before:
            return self._peak_after
        return max(sample.resident_bytes for sample in self.samples)

    @property
    def files(self) -> int:
        """Highest number of descriptors in any sample."""
        return max(sample.files for sample in self.samples)

    def start(self) -> None:
        """Start sampling; may be called once."""
        self._thread.start()

    def stop(self) -> None:
        """Take the last sample and end; may be called repeatedly."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> "Sampler":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _watch(self) -> None:
        due = self.samples[0].at_s
        last = False
        while not (last or self.died):
            due = max(due + self.interval_s, time.monotonic())  # missed samples are not made up for
            last = self._stop.wait(max(0.0, due - time.monotonic()))
            self._look()

    def _look(self) -> None:
        try:
            self.samples.append(sampled(self.pid))
            self._peak_after = peak_resident_bytes(self.pid)
        except (OSError, KeyError):  # KeyError: its memory was released between the two reads
            self.died = True
        if len(self.samples) > self.most:
            del self.samples[1::2]
            self.interval_s *= 2


def _fields(path: Path) -> dict[str, int]:
    """Parse `Name:  number [unit]` lines; skips lines without a number; a thread that has just ended has no lines."""
    try:
        lines = path.read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        if "/task/" not in str(path):
            raise
        return {}
    pairs = (line.partition(":")[::2] for line in lines)
    return {name: int(words[0]) for name, rest in pairs if (words := rest.split()) and words[0].isdigit()}


def warm_memory(directory: Path, size_bytes: int, write_bytes: int) -> None:
    """Write and delete scratch files, so that the guest already has the window's pages and not the hypervisor.

    In a virtual machine, the first access to each page is expensive: 2.3 CPU-s/GB of new page cache, 0.36 once it is
    warm. The size of a write determines the sizes of the page cache's folios, and the allocator uses small cold blocks
    before it splits large warm ones. Therefore one file is written in pieces as large as the window's writes and, if
    those are small, another in pieces as large as a broker combines them to; each file is as long as the data that the
    window writes.
    """
    pieces = {write_bytes, write_bytes * GATHERED} if write_bytes < LARGE_WRITE else {write_bytes}
    paths = {piece: directory / f"bench-warm-{piece}.scratch" for piece in pieces}
    try:
        for piece, path in paths.items():
            block = memoryview(bytearray(os.urandom(piece)))
            with open(path, "wb", buffering=0) as file:
                for _ in range(size_bytes * 5 // (4 * piece) + 1):  # a quarter more, for sockets and the journal
                    file.write(block)
    finally:
        for path in paths.values():
            path.unlink(missing_ok=True)
