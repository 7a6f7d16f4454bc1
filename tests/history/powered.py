"""A broker on a disk that loses power: unsynced writes may be lost, in any part and order.

The process is `broker-cy start`, with the disk of tests/support/power.py instead of the system calls that change names
or sync. On SIGUSR1 it leaves its data directory in a state that a start after a power cut may find, and kills itself
with SIGKILL. The directory has to be in memory, where a sync costs nothing and no inode number is used twice.

    python -m tests.history.powered SEED ... start --data-dir DIRECTORY ...
"""

from __future__ import annotations

import builtins
import functools
import os
import random
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker_cy import cli
from broker_cy.storage import written_points
from tests.history.workload import Workload
from tests.support.broker import BrokerProcess, new_target
from tests.support.power import Disk
from tests.support.wait import until

ROOT = Path(__file__).resolve().parents[2]
MEMORY = Path("/dev/shm")
LOSE_POWER = signal.SIGUSR1
# Every record that is acknowledged or read was synced first (docs/architecture-durability.md).
SYNCED = {"log.flush.interval.messages": "1"}


class PoweredWorkload(Workload):
    """A workload that cuts the power of the broker instead of killing it."""

    broker: BrokerProcess
    flush_messages = 1

    def end_broker(self) -> None:
        os.kill(self.broker.pid, LOSE_POWER)
        until(lambda: not self.broker.alive(), "the end of the power", interval_s=0.002)
        self.broker.kill()
        self.broker.wrapper = wrapper(self.seed * 1000 + self.kills)


def wrapper(seed: int) -> list[str]:
    """The prefix of the command line of a broker whose power is to be cut."""
    return ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.history.powered", str(seed)]


@contextmanager
def powered_broker(directory: Path, settings: dict[str, str], seed: int) -> Iterator[BrokerProcess]:
    """A running broker; its data is removed at the end."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="powered-") as data:
        broker = new_target(directory, {**SYNCED, **settings}, Path(data) / "data")
        assert isinstance(broker, BrokerProcess)
        broker.wrapper = wrapper(seed * 1000)
        try:
            broker.start()
            yield broker
        finally:
            broker.close()


# ---- the process ----


class LockedDisk(Disk):
    """A disk that threads share; nothing changes it after the power cut."""

    def __init__(self, root: str, draw: random.Random) -> None:
        self.lock = threading.RLock()
        super().__init__(root, draw)

    def _locked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def locked(*args: Any, **kwargs: Any) -> Any:
            with self.lock:
                return call(*args, **kwargs)

        return locked

    def lock_all(self) -> None:
        """Make every operation exclusive."""
        for name in ("sync", "sync_names", "sync_all", "open", "mkdir", "rename", "unlink", "rmdir"):
            setattr(self, name, self._locked(getattr(self, name)))

    def lose_power(self) -> None:
        """Cut the power and end this process."""
        with self.lock:
            self.cut()
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    seed, start = int(sys.argv[1]), sys.argv.index("start")
    data_dir = sys.argv[sys.argv.index("--data-dir") + 1]
    # Blocked before any thread starts, so that only the waiting thread receives the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, {LOSE_POWER})
    os.makedirs(data_dir, exist_ok=True)
    disk = LockedDisk(data_dir, random.Random(seed))
    disk.lock_all()

    def wait_for_the_end() -> None:
        signal.sigwait({LOSE_POWER})
        disk.lose_power()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    # Another start of the machine has another boot id: the recorded state of the page cache is then invalid.
    written_points.boot_id = lambda: b"boot-%d" % seed
    # Files that are created through a file object are also recorded.
    builtins.open = functools.partial(_open_through, builtins.open)
    sys.argv = ["broker-cy", *sys.argv[start:]]
    with disk.installed():
        sys.exit(cli.main())


def _open_through(ordinary: Callable[..., Any], file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    if "r" not in mode and not isinstance(file, int):
        kwargs.setdefault("opener", lambda path, flags: os.open(path, flags, 0o644))
    return ordinary(file, mode, *args, **kwargs)


if __name__ == "__main__":
    main()
