"""Durations for the last lines of a test run. The machine may have been busy, so no test compares them with a goal."""

from __future__ import annotations

# The operation, and its seconds.
TIMES: list[tuple[str, float]] = []


def note(what: str, seconds: float) -> None:
    """Show a time at the end of the test run."""
    TIMES.append((what, seconds))
