"""Processes of shards as the kernel knows them: started, found again, watched by pidfd, read in /proc."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from broker_cy.shards.stillness import Threads

_STDOUT: Final = 1
_STDERR: Final = 2
# Variables that a service manager sets for its own process; a shard is another process.
_SERVICE_MANAGER: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID")


def command(shard: int) -> Sequence[str]:
    """The command of a shard: this process's own one, with the number of the shard."""
    return [sys.executable, *sys.orig_argv[1:], "--shard", str(shard)]


def spawn(arguments: Sequence[str], environment: Mapping[str, str], *, says_on_stderr: bool = False) -> Child:
    """Start a process in a session of its own, so that the keys of a terminal reach only the parent, which stops the
    shards in order. With `says_on_stderr` its output goes to the log of this process. Raises OSError.
    """
    kept = {name: value for name, value in environment.items() if name not in _SERVICE_MANAGER}
    output = [(os.POSIX_SPAWN_DUP2, _STDERR, _STDOUT)] if says_on_stderr else []
    pid = os.posix_spawn(arguments[0], list(arguments), kept, file_actions=output, setsid=True)
    try:
        return Child(pid, is_own=True)
    except OSError:
        # No descriptor is left: a process that cannot be watched must not run.
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def has_pidfds() -> bool:
    """Whether the kernel can wait for a process by a descriptor (Linux 5.4)."""
    try:
        fd = os.pidfd_open(os.getpid())
    except OSError:
        return False
    try:
        os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return True  # this process is no child of itself
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since the boot: it names the process with its id; None if it has ended."""
    fields = _stat(f"/proc/{pid}/stat")
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def threads(pid: int) -> Threads | None:
    """None if the process has ended."""
    states, cpu_ticks = "", 0
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return None
    for name in names:
        fields = _stat(f"/proc/{pid}/task/{name}/stat")
        if fields is not None:
            states += fields[0]
            cpu_ticks += int(fields[11]) + int(fields[12])
    return Threads(states, cpu_ticks)


def _stat(path: str) -> list[str] | None:
    """The fields from the state on; the name before it may contain anything."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


class Child:
    """A process of a shard, by a pidfd: its id cannot come to mean another process."""

    def __init__(self, pid: int, *, is_own: bool) -> None:
        """`is_own`: this process started it. Raises OSError (ProcessLookupError)."""
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self._is_own = is_own

    @classmethod
    def found(cls, pid: int, started: int) -> Child | None:
        """A process that another parent started, if it still runs."""
        try:
            child = cls(pid, is_own=False)
        except OSError:
            return None
        if start_ticks(pid) != started:
            child.close()
            return None
        return child

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def exit_code(self) -> int | None:
        """After its end: the exit code, negative the signal; None if another parent started it."""
        if not self._is_own:
            return None
        with suppress(ChildProcessError):
            found = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
            if found is not None:
                return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        return None

    def close(self) -> None:
        os.close(self.pidfd)


def reason_of(code: int | None) -> str:
    """How a process ended, for people."""
    if code is None:
        return "unknown, because another parent started it"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
