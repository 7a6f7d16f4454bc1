"""Errors that the text of a user causes, with the place in the text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in a text: lines and columns count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}:{self.column}"


class SqlError(Exception):
    """A statement that cannot be done. `location` is the place in the text that is to be changed, if there is one."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message


class ParseError(SqlError):
    """The text is no statement."""


class AnalysisError(SqlError):
    """Names, types, keys or windows of a statement do not fit together."""


class StatementError(SqlError):
    """The statement is right, and cannot be done now: a query runs, a topic is missing, a right is missing."""
