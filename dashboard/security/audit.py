"""The audit log: who did what, from where, with which result; and denied requests.

The file `audit.log` of the state directory has one JSON object a line with the fields of Entry, mode 0600. It is only
appended to. At 16 MiB it becomes audit.log.1, which becomes audit.log.2, and so on; the fifth is removed. JSON escapes
line breaks, so that a text from a user or a cluster cannot forge an entry. Record values are never written: callers
pass command lines without them.

An entry is written before `note` returns, but not synced: a crash of the dashboard loses none, a power loss the last
seconds.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Final

from dashboard.security.files import PRIVATE_MODE, check_private, invalid

FILE_BYTES_MAX: Final = 16 << 20
OLD_FILES: Final = 4
FIELD_CHARACTERS_MAX: Final = 2_000
# Entries in memory, which the audit page shows; older ones are in the files.
RECENT_MAX: Final = 2_000
# Bytes that are read from the end of each file at startup to fill them.
_TAIL_BYTES_MAX: Final = 4 << 20
_CUT: Final = "..."

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log.

    `act` is what was done, such as topics.delete or login; `subject` what it was done to; `command` the equivalent
    command line; `result` is done, refused: ..., or failed: ...
    """

    time_ms: int
    user: str
    address: str
    cluster: str
    act: str
    subject: str
    command: str
    result: str


_TEXTS: Final = tuple(field.name for field in fields(Entry) if field.name != "time_ms")


class Audit:
    """The audit log in `directory`. Any thread may call `note`."""

    def __init__(self, directory: Path, *, clock: Callable[[], float] = time.time) -> None:
        """Open the file and read the newest entries. Raises ClientError if others can access the file."""
        self.path = directory / "audit.log"
        # The number of entries that could not be written, and the reason of the last failure; the audit page shows
        # both.
        self.lost = 0
        self.problem = ""
        self._clock = clock
        self._lock = threading.Lock()
        try:
            self._fd, self._size_bytes = self._open()
        except OSError as error:
            raise invalid(self.path, f"cannot be opened: {error.strerror}") from None
        newest = islice(self._stored(), RECENT_MAX)
        self._recent: deque[Entry] = deque(reversed(list(newest)), maxlen=RECENT_MAX)

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def note(
        self,
        *,
        user: str,
        act: str,
        result: str,
        address: str = "",
        cluster: str = "",
        subject: str = "",
        command: str = "",
    ) -> None:
        """Append an entry. Never raises: a failed write is logged and counted in `lost`, and `recent` has the entry."""
        texts = (user, address, cluster, act, subject, command, result)
        entry = Entry(int(self._clock() * 1000), *(_limited(text) for text in texts))
        line = json.dumps(asdict(entry), separators=(",", ":")).encode() + b"\n"
        with self._lock:
            self._recent.append(entry)
            try:
                self._append(line)
                self.problem = ""
            except OSError as error:
                self.lost += 1
                self.problem = f"{self.path}: {error.strerror}"
                _log.error("an audit entry is lost: %s: %s", self.problem, line.decode().rstrip())

    def recent(self, limit: int = RECENT_MAX) -> list[Entry]:
        """Return the newest entries, at most `limit` and RECENT_MAX, newest first; also those of earlier runs."""
        with self._lock:
            return list(islice(reversed(self._recent), max(0, limit)))

    def _open(self) -> tuple[int, int]:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(self.path, flags, PRIVATE_MODE)
        try:
            status = os.fstat(fd)
            check_private(self.path, status)
            size_bytes = status.st_size
            # A crash or a full disk may have cut the last line; the next entry must have a line of its own.
            if size_bytes and os.pread(fd, 1, size_bytes - 1) != b"\n":
                size_bytes += os.write(fd, b"\n")
        except BaseException:
            os.close(fd)
            raise
        return fd, size_bytes

    def _append(self, line: bytes) -> None:
        if self._fd < 0:
            self._fd, self._size_bytes = self._open()
        if self._size_bytes + len(line) > FILE_BYTES_MAX:
            self._rotate()
        written = os.write(self._fd, line)
        self._size_bytes += written
        if written < len(line):
            # The disk is full: the rest of this line is lost, and the next entry starts a line (see _open).
            os.close(self._fd)
            self._fd = -1
            raise OSError(28, "the disk is full")

    def _rotate(self) -> None:
        for number in range(OLD_FILES, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(self._old(number - 1), self._old(number))
        os.close(self._fd)
        self._fd = -1
        self._fd, self._size_bytes = self._open()

    def _old(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path

    def _stored(self) -> Iterator[Entry]:
        """Yield the entries of the files, newest first. A line that is not an entry is skipped."""
        for number in range(OLD_FILES + 1):
            try:
                with open(self._old(number), "rb") as file:
                    size_bytes = file.seek(0, os.SEEK_END)
                    start = max(0, size_bytes - _TAIL_BYTES_MAX)
                    file.seek(start)
                    lines = file.read(size_bytes - start).split(b"\n")
            except OSError:
                return
            # Reading may have started within a line.
            for line in reversed(lines[1:] if start else lines):
                entry = _parsed(line)
                if entry is not None:
                    yield entry


def _limited(text: object) -> str:
    value = text if isinstance(text, str) else str(text)
    return value if len(value) <= FIELD_CHARACTERS_MAX else value[: FIELD_CHARACTERS_MAX - len(_CUT)] + _CUT


def _parsed(line: bytes) -> Entry | None:
    try:
        data = json.loads(line)
        return Entry(int(data["time_ms"]), *(_limited(data[name]) for name in _TEXTS))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
