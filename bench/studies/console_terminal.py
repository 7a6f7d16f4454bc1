"""A console in a pseudo-terminal: sends keys, reads the output, and measures the time in between."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

COLUMNS, LINES = 160, 50
STOP_S = 10.0
# Output that is kept for matching; older output is discarded.
KEPT_BYTES = 1 << 20
_READ_BYTES = 1 << 16
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[@-Z\\-_=>])")


class ConsoleError(Exception):
    """The console ended, or did not show the expected text."""


class ConsoleTerminal:
    """`broker-tui` with `arguments` in a separate terminal. Must be closed."""

    def __init__(self, *arguments: str, environment: dict[str, str]) -> None:
        argv = [sys.executable, "-m", "admin_tui.cli", *arguments]
        self.begun_s = time.perf_counter()
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(
                    argv[0], argv, {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
                )
            finally:
                os._exit(127)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.drawn = b""

    def press(self, keys: bytes) -> None:
        """Send the bytes that a terminal sends for keys."""
        os.write(self._descriptor, keys)

    def forget(self) -> None:
        """Discard everything drawn so far."""
        while select.select([self._descriptor], [], [], 0)[0]:
            self._read()
        self.drawn = b""

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except OSError:
            data = b""
        if not data:
            raise ConsoleError(f"the console ended; the last text it drew: {self.text()[-400:]!r}")
        self.drawn = (self.drawn + data)[-KEPT_BYTES:]

    def text(self) -> str:
        """Return the text drawn since `forget`, without the terminal's escape sequences."""
        return _ESCAPES.sub(b"", self.drawn).decode(errors="replace")

    def shows(self, pattern: str, timeout_s: float = 30.0) -> re.Match[str]:
        """Wait until `pattern` is drawn. Raises ConsoleError after the timeout."""
        wanted = re.compile(pattern)
        deadline = time.perf_counter() + timeout_s
        while (found := wanted.search(self.text())) is None:
            left = deadline - time.perf_counter()
            if left <= 0 or not select.select([self._descriptor], [], [], left)[0]:
                raise ConsoleError(f"{pattern!r} was not drawn within {timeout_s:g} s, but {self.text()[-400:]!r}")
            self._read()
        return found

    def took(self, keys: bytes, pattern: str, timeout_s: float = 30.0) -> float:
        """Return the seconds from a key press until `pattern` is drawn."""
        self.forget()
        begun = time.perf_counter()
        self.press(keys)
        self.shows(pattern, timeout_s)
        return time.perf_counter() - begun

    def command(self, text: str, pattern: str, timeout_s: float = 60.0) -> None:
        """Type a command after a colon, and wait until `pattern` is drawn."""
        self.press(b":")
        self.idle(0.3)
        self.forget()
        self.press(text.encode() + b"\r")
        self.shows(pattern, timeout_s)

    def idle(self, seconds: float) -> None:
        """Read the output for `seconds`, so that the console never waits for its terminal."""
        deadline = time.perf_counter() + seconds
        while (left := deadline - time.perf_counter()) > 0:
            if select.select([self._descriptor], [], [], left)[0]:
                self._read()

    def resident_bytes(self) -> int:
        """Return the console's resident memory."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        """Return the CPU time that the console has used, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the console with Ctrl-Q; kill it if it does not end within STOP_S."""
        try:
            self.press(b"\x11")
            deadline = time.perf_counter() + STOP_S
            while time.perf_counter() < deadline:
                self.idle(0.05)
        except (ConsoleError, OSError):
            pass
        if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._descriptor)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 1_000_000) // 1_000_000) - 1)]
