"""Child processes that never outlive this one: in their own session, killed by the kernel with us, always reaped."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

# The kernel kills the child when the thread that started it ends, for whatever reason, so the main thread starts
# long-lived children. setpriv belongs to util-linux, which is part of every Debian.
_SETPRIV = shutil.which("setpriv")
_DIE_WITH_PARENT = [_SETPRIV, "--pdeathsig", "KILL", "--"] if _SETPRIV else []
_POLL_S = 0.005


class ProcessError(Exception):
    """A process did not start, did not end in time, or ended with an error; the text has its last output."""


def die_with_parent(argv: Sequence[str | Path]) -> list[str]:
    """Return `argv` with a prefix that lets the kernel kill the process when this one ends."""
    return [*_DIE_WITH_PARENT, *map(str, argv)]


def start_child(
    argv: Sequence[str | Path],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child process. Ctrl-C in the terminal does not reach it. `env` is added to the environment."""
    return subprocess.Popen(
        die_with_parent(argv),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        start_new_session=True,
    )


def end_within(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Wait until the process has ended; kill it if it does not end in time."""
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def kill_group(pid: int, *, is_reaped: bool) -> None:
    """Send SIGKILL to the group of a process that `start_child` started; does nothing if no process of it is left.

    The kernel gives the id of a reaped process to another one, but not while its group has members: a process that now
    has this id is a stranger, and the group has ended.
    """
    if is_reaped and os.path.exists(f"/proc/{pid}"):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


class Child:
    """One child process; stdout and stderr go to files, so that no pipe ever fills up."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        directory: Path,
        name: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.stdout_path = directory / f"{name}.stdout"
        self.stderr_path = directory / f"{name}.stderr"
        with open(self.stdout_path, "wb") as out, open(self.stderr_path, "wb") as err:
            self._process = start_child(argv, stdout=out, stderr=err, env=env, cwd=cwd)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def stdout(self) -> str:
        return self.stdout_path.read_text(errors="replace")

    def stderr(self) -> str:
        return self.stderr_path.read_text(errors="replace")

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of stderr, in one line."""
        return " | ".join(self.stderr().splitlines()[-lines:])

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to this process only; does nothing if it has ended."""
        if self.returncode is None:
            self._process.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        """Wait for the exit code. Raises ProcessError with the tail of stderr if the process does not end in time."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ProcessError(
                f"{self.name} did not end within {timeout_s:g} s; stderr:\n{self.stderr()[-4000:]}"
            ) from None

    def kill(self) -> None:
        """Send SIGKILL to the whole process group, and reap the process."""
        kill_group(self.pid, is_reaped=self.returncode is not None)
        self._process.wait()

    def wait_for_output(self, condition: str, timeout_s: float) -> None:
        """Wait until stdout or stderr contains the text `condition`. Raises ProcessError after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while condition not in self.stdout() and condition not in self.stderr():
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name} did not print {condition!r} within {timeout_s:g} s; {self.tail()}")
            time.sleep(_POLL_S)


def run(
    argv: Sequence[str | Path],
    *,
    stdin: bytes = b"",
    timeout_s: float = 60.0,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end.

    Raises ProcessError, with both outputs, when it takes longer than `timeout_s`, or when `check` is set and the exit
    code is not 0.
    """
    process = start_child(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd)
    try:
        out, err = process.communicate(stdin, timeout_s)
    except subprocess.TimeoutExpired:
        kill_group(process.pid, is_reaped=process.returncode is not None)
        out, err = process.communicate()
        raise ProcessError(f"{_shown(argv)}: still running after {timeout_s:g} s\n{_tails(out, err)}") from None
    except BaseException:
        kill_group(process.pid, is_reaped=process.returncode is not None)
        process.wait()
        raise
    done = subprocess.CompletedProcess([str(part) for part in argv], process.returncode, out, err)
    if check and done.returncode != 0:
        raise ProcessError(f"{_shown(argv)}: exit code {done.returncode}\n{_tails(out, err)}")
    return done


def _shown(argv: Sequence[str | Path]) -> str:
    text = " ".join(str(part) for part in argv)
    return text if len(text) < 400 else text[:150] + " ... " + text[-240:]


def _tails(out: bytes, err: bytes) -> str:
    return f"stdout: {out[-3000:].decode(errors='replace')}\nstderr: {err[-3000:].decode(errors='replace')}"
