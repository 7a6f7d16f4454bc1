"""Secrets in files, which commands and settings name: the first line of one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SECRET_BYTES_MAX: Final = 4_096


def first_line(path: Path) -> str:
    """The first line of a file, without its end. Raises OSError, and ValueError if it is not UTF-8."""
    with path.expanduser().open(encoding="utf-8") as lines:
        return lines.readline(SECRET_BYTES_MAX).rstrip("\r\n")
