"""Errors of requests and of segment files."""

from __future__ import annotations

HINT = "(onDamage=skip leaves out what cannot be read)"


class SegmentsError(ValueError):
    """A request cannot be fulfilled; the text lists the allowed or existing values."""


class DamageError(Exception):
    """A part of a log cannot be read. The text names the file, the byte and the offset."""

    def __init__(self, path: str, position: int, offset: int, reason: str) -> None:
        self.place = f"{path}: at byte {position}, where offset {offset} is expected: {reason}"
        super().__init__(f"{self.place} {HINT}")
        self.path = path
        self.position = position
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type[DamageError], tuple[str, int, int, str]]:
        return DamageError, (self.path, self.position, self.offset, self.reason)
