"""In `make test`, brokers and other programs are forked from a process that has loaded their modules.

Loading takes nine tenths of the CPU time of a start (0.4 s for a broker), and the tests start many hundred programs.
`make test-all` executes each command as users do. In both, a command with a prefix, such as the `wrapper` of a node, is
executed, and so is everything that tests start in other ways.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from bench.launch.nodes import broker_command
from broker_cy.launch.processes import Child, ProcessError, kill_group, start_child
from tests.support.tiers import IS_FULL

ROOT = Path(__file__).resolve().parents[2]
# The modules that the parent loads for each program: the one with `main`, and those that a start loads later.
MODULES: Mapping[str, Sequence[str]] = {
    "broker_cy": ("broker_cy.cli", "broker_cy.main", "broker_cy.storage_tool.command"),
    "broker_registry": ("broker_registry.__main__", "broker_registry.cli"),
    "dashboard": ("dashboard.__main__", "dashboard.cli", "dashboard.server"),
    "tests.fuzz.driver": ("tests.fuzz.driver", "tests.fuzz.storage_targets", "tests.fuzz.wire_targets"),
}
# The commands of `broker-cy` that need the modules of a broker.
COMMANDS = ("start", "storage")
# Variables that a process reads when it begins: another value has no effect after a fork.
READ_AT_BEGIN = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "OPENSSL_", "ASAN_", "UBSAN_", "LANG", "LC_", "TZ")
MESSAGE_BYTES = 1 << 16
POLL_S = 0.02
END_S = 10.0


class Parent:
    """The process that forks the processes of a program. It ends with this process, and its children with it."""

    def __init__(self, program: str) -> None:
        self._turn = threading.Lock()
        # The kernel gives the id of a process that has ended to a later one, so each process has a number as well.
        self._numbers = itertools.count()
        self._running: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        self._environment = read_at_begin()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.support.forking_parent", *MODULES[program]]
            self._process = start_child(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, cwd=ROOT)
        atexit.register(self.close)

    @property
    def can_fork(self) -> bool:
        """Whether it runs, with the environment of this process."""
        return self._process.poll() is None and read_at_begin() == self._environment

    def fork(
        self, argv: Sequence[str], stdout: Path, stderr: Path, env: Mapping[str, str], cwd: Path
    ) -> tuple[int, int]:
        """Start a process; return its number and its process id. Raises ProcessError."""
        request = {
            "argv": argv,
            "stdout": str(stdout.absolute()),
            "stderr": str(stderr.absolute()),
            "env": {**os.environ, **env},
            "cwd": str(cwd.absolute()),
        }
        with self._turn:
            self._socket.send(json.dumps(request).encode())
            while (pid := self._receive().get("pid")) is None:
                pass
            number = self._running[pid] = next(self._numbers)
            return number, pid

    def code(self, number: int) -> int | None:
        """Return the exit code of a process; None while it runs."""
        with self._turn:
            while number not in self._codes and select.select([self._socket], [], [], 0)[0]:
                self._receive()
            return self._codes.get(number)

    def wait(self, timeout_s: float) -> None:
        """Wait until a process may have ended."""
        select.select([self._socket], [], [], timeout_s)

    def _receive(self) -> dict[str, int]:
        message = self._socket.recv(MESSAGE_BYTES)
        if not message:
            raise ProcessError(f"the process that forks others has ended: {self._process.poll()}")
        answer: dict[str, int] = json.loads(message)
        if "ended" in answer:
            self._codes[self._running.pop(answer["ended"])] = answer["code"]
        return answer

    def close(self) -> None:
        """End it."""
        atexit.unregister(self.close)
        self._socket.close()
        self._process.wait(END_S)


def read_at_begin() -> dict[str, str]:
    """Return the variables of the environment that must be the same in the parent."""
    return {name: text for name, text in os.environ.items() if name.startswith(READ_AT_BEGIN)}


class ForkedChild(Child):
    """A process that `parent` has forked."""

    def __init__(
        self,
        parent: Parent,
        argv: Sequence[str],
        directory: Path,
        name: str,
        env: Mapping[str, str],
        cwd: Path,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.stdout_path = directory / f"{name}.stdout"
        self.stderr_path = directory / f"{name}.stderr"
        self._parent = parent
        self._number, self._pid = parent.fork(argv, self.stdout_path, self.stderr_path, env, cwd)

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def returncode(self) -> int | None:
        return self._parent.code(self._number)

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def wait(self, timeout_s: float) -> int:
        deadline_s = time.monotonic() + timeout_s
        while (code := self.returncode) is None:
            if time.monotonic() > deadline_s:
                raise ProcessError(f"{self.name} did not end within {timeout_s:g} s; stderr:\n{self.stderr()[-4000:]}")
            # Another thread may take the message that it has ended.
            self._parent.wait(POLL_S)
        return code

    def kill(self) -> None:
        kill_group(self._pid, is_reaped=self.returncode is not None)
        self.wait(END_S)


@cache
def _parent(program: str) -> Parent:
    return Parent(program)


def _program(argv: Sequence[str]) -> str | None:
    """Return the program of a command; None if it is not forked."""
    if [*argv[:1]] == broker_command() and argv[1] in COMMANDS:
        return "broker_cy"
    if [*argv[:2]] == [sys.executable, "-m"] and argv[2] in MODULES and argv[2] != "broker_cy":
        return argv[2]
    return None


def start(
    argv: Sequence[str | Path],
    directory: Path,
    name: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Child:
    """Start a process with this command line, as Child does; forked if that makes no difference. Only the main thread
    forks: the kernel ends a parent with the thread that started it.
    """
    words, added = [*map(str, argv)], env or {}
    is_alike = not any(variable.startswith(READ_AT_BEGIN) for variable in added) and "LD_PRELOAD" not in os.environ
    is_main = threading.current_thread() is threading.main_thread()
    program = None if IS_FULL or not is_alike or not is_main else _program(words)
    if program is None or not _parent(program).can_fork:
        return Child(argv, directory, name, env, cwd)
    return ForkedChild(_parent(program), words, directory, name, added, cwd or Path.cwd())


def run(
    argv: Sequence[str | Path], directory: Path, timeout_s: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, with its outputs in files in `directory`. Raises ProcessError."""
    child = start(argv, directory, "run", cwd=cwd)
    try:
        code = child.wait(timeout_s)
    finally:
        child.kill()
    return subprocess.CompletedProcess(argv, code, child.stdout_path.read_bytes(), child.stderr_path.read_bytes())


class Forking:
    """A node of bench.launch whose processes are forked."""

    def new_child(self, argv: Sequence[str | Path], directory: Path, name: str) -> Child:
        return start(argv, directory, name)
