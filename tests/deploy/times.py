"""How long things took, for the last lines of a test run: the machine may have done other things as well, so no test
compares them with a goal.
"""

from __future__ import annotations

# What was done, and seconds.
TIMES: list[tuple[str, float]] = []


def note(what: str, seconds: float) -> None:
    """Show a time at the end of the test run."""
    TIMES.append((what, seconds))
