"""CPU profiles of a process: Linux' `perf record` around the pieces of a window, reported for each function.

perf samples user space and kernel FREQUENCY times per second of CPU time, without call graphs: less than 1 % of the
load. It counts only inside `observed`; the rest (topics, warming, start) is not included. Symbols and units are perf's.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FREQUENCY = 499  # Hz; not a divisor of the kernel's tick, whose work would otherwise be sampled always or never
TOP = 40  # functions that are listed one by one; the others are summed
WINDOW_MOST_S = 10.0  # a longer window adds nothing: 5,000 samples of each core are within 1.4 points of every share
MOST_DATA = "256M"  # limit of what perf writes
MOST_TEXT_BYTES = 16 << 20  # of its report
MOST_NAME = 160  # of a C++ signature
TIMEOUT_S = 60.0
ACK_TIMEOUT_S = 10.0
SEPARATOR = "\t"
Key = tuple[str, str]  # module, function


class PerfError(Exception):
    """perf is missing, not permitted, or did not return the requested data; the text says what to do."""


@dataclass(frozen=True)
class Counted:
    """perf's samples of one process; shares are of its CPU time, and sum up to 1 over `functions`."""

    event: str  # cycles, or cpu-clock if the machine has no counters (most virtual machines)
    samples: int
    functions: Mapping[Key, float]  # share by (module, function), highest first
    notes: Sequence[str] = ()

    def modules(self) -> dict[str, float]:
        """Return the share of each module, highest first."""
        found: dict[str, float] = {}
        for (module, _), share in self.functions.items():
            found[module] = found.get(module, 0.0) + share
        return dict(sorted(found.items(), key=lambda each: -each[1]))


def require() -> None:
    """Check that perf is installed and may observe processes and the kernel. Raises PerfError with the reason."""
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "probe.data"
        _run(["record", "-q", "-N", "-F", str(FREQUENCY), "-o", str(data), "--", "true"])
        modifiers = {line.rpartition(":")[2] for line in _run(["evlist", "-f", "-i", str(data)]).split() if ":" in line}
    if any("u" in each for each in modifiers):
        # Most of a broker's time is spent in the kernel: a profile without it would name the wrong functions.
        raise PerfError(f"perf may not see the kernel: {_permission()}")


def _permission() -> str:
    try:
        level = Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
    except OSError:
        level = "not known"
    return f"kernel.perf_event_paranoid is {level} (allowed: at most 1, or root, or CAP_PERFMON)"


def _run(arguments: Sequence[str]) -> str:
    """Run perf and return its standard output, at most MOST_TEXT_BYTES. Raises PerfError."""
    # perf requests debug information from a server if the environment names one; nothing here may wait for a network.
    environment = {**os.environ, "DEBUGINFOD_URLS": "", "LC_ALL": "C", "PERF_CONFIG": os.devnull}
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(
                ["perf", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints,
                env=environment,
            )  # fmt: skip
        except OSError as error:
            raise PerfError(f"perf cannot be run: {error.strerror} (Debian: apt-get install linux-perf)") from None
        killer = threading.Timer(TIMEOUT_S, process.kill)
        killer.start()
        with process:
            assert process.stdout is not None
            text = process.stdout.read(MOST_TEXT_BYTES + 1)
            if len(text) > MOST_TEXT_BYTES:
                process.kill()
        killer.cancel()
        if len(text) > MOST_TEXT_BYTES:
            raise PerfError(f"perf {arguments[0]} printed more than {MOST_TEXT_BYTES} bytes")
        if process.returncode:
            complaints.seek(0)
            raise PerfError(_complaint(arguments[0], process.returncode, complaints.read(4096)))
    return text.decode(errors="replace")


def _complaint(command: str, code: int, stderr: bytes) -> str:
    words = " ".join(stderr.decode(errors="replace").split())[:300] or f"exit code {code}"
    denied = any(word in words.lower() for word in ("permi", "access to performance", "paranoid"))
    return f"perf {command}: {words}" + (f"; {_permission()}" if denied else "")


class Recording:
    """perf attached to a target's processes; it counts only while `observed` is open. Close it before `counted`."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "perf.data"
        self.log = directory / "perf.log"
        self.pids = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._control = self._answers = -1

    @contextlib.contextmanager
    def observed(self, *pids: int) -> Iterator[None]:
        """Count the processes' CPU time inside the context; the first call attaches to them. Raises PerfError."""
        if self._process is None:
            self._attach(pids)
        self._tell("enable")
        try:
            yield
        finally:
            self._tell("disable")

    def _attach(self, pids: Sequence[int]) -> None:
        self.data.parent.mkdir(parents=True, exist_ok=True)
        self.pids = ",".join(map(str, pids))
        control, self._control = os.pipe()
        self._answers, answers = os.pipe()
        # Events wait for `enable` (-D -1); -N: no copies of the binaries into the user's home.
        command = ["perf", "record", "-q", "-N", "-F", str(FREQUENCY), "-p", self.pids, "-o", str(self.data)]
        command += ["-D", "-1", "--max-size", MOST_DATA, "--control", f"fd:{control},{answers}"]
        try:
            with open(self.log, "wb") as log:
                # In a separate session: Ctrl-C is for the tool, which then ends perf in order.
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(control, answers),
                    start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise PerfError(f"perf cannot be run: {error.strerror}") from None
        finally:
            os.close(control)
            os.close(answers)

    def _tell(self, command: str) -> None:
        """Send a command to perf and wait for its acknowledgement, so that nothing before or after it is counted."""
        try:
            os.write(self._control, command.encode() + b"\n")
            ready, _, _ = select.select([self._answers], [], [], ACK_TIMEOUT_S)
            if ready and b"ack" in os.read(self._answers, 64):
                return
        except BrokenPipeError:
            pass
        raise PerfError(f"perf did not {command} the recording of process {self.pids}: {self._said()}")

    def _said(self) -> str:
        with contextlib.suppress(OSError):
            if self._process is not None and self._process.poll() is not None:
                return _complaint("record", self._process.returncode, self.log.read_bytes()[:4096])
        return f"no answer within {ACK_TIMEOUT_S:g} s"

    def close(self) -> None:
        """End perf; the file is complete afterwards."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        for end in (self._control, self._answers):  # after perf has ended, which reads them until then
            if end >= 0:
                os.close(end)
        self._control = self._answers = -1

    def counted(self) -> Counted:
        """Return the counts inside `observed`; to be called after `close`. Raises PerfError."""
        fields = ["-F", "period,sample,dso,symbol", "-t", SEPARATOR]
        return parse(_run(["report", "--stdio", "-f", "--no-children", *fields, "-i", str(self.data)]))


HEAD = re.compile(r"# Samples: \S+ +of event '([^']+)'")
LOST = re.compile(r"# Total Lost Samples: (\d+)")
ADDRESS = re.compile(r"0x[0-9a-f]+")
UNNAMED = re.compile(r"\[JIT\] tid \d+|perf-\d+\.map|//anon|\[anon.*|anon_inode.*|\[unknown\]|\[heap\]|\[stack\]")


def parse(text: str) -> Counted:
    """Parse `perf report --stdio -F period,sample,dso,symbol -t TAB`; several events (two kinds of core) are summed.

    Raises PerfError for a line that perf does not print, and for a report without a sample.
    """
    lines = text.splitlines()
    events = dict.fromkeys(match[1].split(":")[0] for line in lines if (match := HEAD.match(line)))
    lost = sum(int(match[1]) for line in lines if (match := LOST.match(line)))
    rows = [_row(line) for line in lines if line.strip() and not line.startswith("#")]
    samples = sum(count for _, count, _, _ in rows)
    if not samples:
        raise PerfError("perf saw no sample: the process did not run in the window")
    java = any(module == "libjvm.so" for _, _, module, _ in rows)
    periods: Counter[Key] = Counter()
    for period, _, module, symbol in rows:
        periods[_named(module, symbol, java)] += period
    whole = sum(periods.values())
    notes = []
    if lost:
        notes.append(f"{lost} samples were lost")
    if any(key == HIDDEN for key in periods):
        notes.append("names of the kernel's functions are hidden (kernel.kptr_restrict)")
    functions = {key: period / whole for key, period in periods.most_common()}
    return Counted("+".join(events), samples, functions, tuple(notes))


HIDDEN = ("kernel", "hidden function")


def _row(line: str) -> tuple[int, int, str, str]:
    """Parse a line: period, samples, module, symbol with its `[k]` or `[.]`."""
    parts = [part.strip() for part in line.split(SEPARATOR)]
    if len(parts) != 4 or not (parts[0].isdigit() and parts[1].isdigit()):
        raise PerfError(f"perf report printed an unknown line: {line[:200]!r}")
    return int(parts[0]), int(parts[1]), parts[2], parts[3]


def _named(module: str, symbol: str, java: bool) -> Key:
    """Return module and function of a row; addresses without a name are one row for each module."""
    level, _, function = symbol.partition(" ")
    unnamed = ADDRESS.fullmatch(function.strip()) is not None
    if level in ("[k]", "[g]"):
        own = module.strip("[]").removesuffix(".kallsyms")
        name = "kernel" if own in ("kernel", "unknown") else f"kernel {own}"
        return HIDDEN if unnamed else (name, function[:MOST_NAME])
    if UNNAMED.fullmatch(module):
        if not unnamed:  # a perf-PID.map names it
            return "compiled at run time", function[:MOST_NAME]
        return ("JVM", "JVM compiled code") if java else ("compiled at run time", "code without names")
    if unnamed:
        return short(module), "functions without names"
    return short(module), readable(function)[:MOST_NAME]


def short(module: str) -> str:
    """Return a library without its directory and the suffix of `segment.cpython-311-x86_64-linux-gnu.so`."""
    return re.sub(r"(\.cpython-[^/]*|\.abi3)\.so$", "", module.rpartition("/")[2])


def readable(symbol: str) -> str:
    """Return Cython's names as in the source: __pyx_f_9broker_cy_4core_6crc32c_extend is core.crc32c.extend."""
    match = re.match(r"__pyx_(?:fuse_\d+)?(f|pw|pf|gb|getprop|setprop|tp_\w+?)_(?=\d)", symbol)
    if not match:
        return symbol
    rest, words = symbol[match.end() :], []
    while found := re.match(r"\d+", rest):
        end = found.end() + int(found[0])
        if rest[end : end + 1] != "_":
            break
        words.append(rest[found.end() : end])
        rest = rest[end + 1 :]
    name = re.sub(r"^\d+", "", rest) if match[1] != "f" else rest
    return ".".join([*words[1:], name]) if len(words) > 1 else symbol


def top(shares: Iterable[tuple[Key, float]], most: int = TOP) -> tuple[list[tuple[Key, float]], float]:
    """Return the highest `most` shares, and the sum of all others."""
    ordered = sorted(shares, key=lambda each: -each[1])
    return ordered[:most], sum(share for _, share in ordered[most:])
