"""The broker under callgrind, and instruction counts of measurement windows.

callgrind counts the user-space code of the whole process, all threads: interpreter, extensions, libuv, libc. The
kernel's instructions (copies, TCP, the file system) are not counted.
"""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.check import profile
from bench.check.operations import Operation
from bench.check.profile import Profile
from bench.spec.target import BROKER_SETTINGS
from bench.targets.brokers import BrokerCy, TargetError

COMMAND_TIMEOUT_S = 60
WARM_UP = 100  # requests before the first window: the interpreter specializes its code, callgrind translates it
# The broker samples its metrics each second: this is not part of a request, and under callgrind a second has few
# requests.
WITHOUT_SAMPLES = {"brokercy.metrics.sample.interval.ms": "0", "brokercy.events.enable": "false"}
ROUNDS = 5  # windows of one operation; the smallest count is used, because a disturbance only adds instructions


class Counts(NamedTuple):
    """One operation: instructions per request, and the profile of the functions that executed them."""

    per_request: int
    spread: float  # of the windows' counts: (largest - smallest) / smallest
    requests: int  # in the window of `profile`
    profile: Profile  # of the window with the smallest count


class Counted(BrokerCy):
    """The broker under callgrind, which does not count until `instrument` is called."""

    name = "broker-cy under callgrind"

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, {**BROKER_SETTINGS, **WITHOUT_SAMPLES, **(settings or {})})
        self.dumps = directory.with_name(directory.name + ".callgrind")
        self.dumps.mkdir(parents=True, exist_ok=True)
        callgrind = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--vgdb-prefix={self.dumps}/vgdb"]
        # With different str hashes, dicts collide differently; writing a .pyc file or not changes the counts, too.
        outputs = f"--callgrind-out-file={self.dumps}/out"
        self.node.wrapper = ["env", "PYTHONHASHSEED=0", *callgrind, outputs]

    def control(self, command: str) -> None:
        """Send a monitor command to callgrind and wait until it is done. Raises TargetError."""
        vgdb = ["vgdb", f"--vgdb-prefix={self.dumps}/vgdb", f"--pid={self.pid}", "--wait=5", "--max-invoke-ms=10"]
        try:
            done = subprocess.run([*vgdb, command], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise TargetError(f"{self.name}: {command}: not done within {COMMAND_TIMEOUT_S} s") from None
        if done.returncode:
            raise TargetError(f"{self.name}: {command}: {(done.stderr or done.stdout).strip()}: {self.node.tail()}")

    def instrument(self) -> None:
        """Start counting."""
        self.control("instrumentation on")

    def dump(self) -> Profile:
        """Return the counts since the last dump. Raises TargetError and ProfileError."""
        self.control("dump")
        written = list(self.dumps.glob("out.*"))
        if len(written) != 1:
            raise TargetError(f"{self.name}: {len(written)} profiles were written: {self.node.tail()}")
        with written[0].open(encoding="utf-8", errors="replace") as lines:
            found = profile.parse(lines)
        written[0].unlink()
        return found


def count(broker: Counted, operation: Operation, requests: int, progress: Callable[[int], None]) -> Counts:
    """Count the instructions of `operation`: the smallest count of ROUNDS windows of `requests` requests each."""
    for _ in range(WARM_UP):
        operation()
    windows = []
    for _ in range(ROUNDS):
        broker.dump()
        for _ in range(requests):
            operation()
        windows.append(broker.dump())
        progress(windows[-1].total // requests)
    windows.sort(key=lambda window: window.total)
    least = windows[0]
    spread = (windows[-1].total - least.total) / max(least.total, 1)
    return Counts(round(least.total / requests), spread, requests, least)
