"""The pure parts of stream processing use nothing of the machine, so that a task runs again with equal results."""

from __future__ import annotations

from pathlib import Path

from tests.broker_cy.test_seams import uses

STREAMS = Path(__file__).resolve().parents[2] / "broker_streams"


def test_pure_files_use_nothing_of_the_machine() -> None:
    """If this fails, a batch that is processed again after a failure may have other results."""
    paths = [
        STREAMS / "records.py",
        *STREAMS.glob("*.p[yx][xd]"),
        *(path for room in ("dsl", "plan", "kernel") for path in (STREAMS / room).rglob("*.py")),
        *(path for room in ("dsl", "plan", "kernel") for path in (STREAMS / room).rglob("*.p[yx][xd]")),
    ]
    found = {str(path.relative_to(STREAMS)): uses(path) for path in paths}
    assert len(found) > 10
    assert {name: used for name, used in found.items() if used} == {}
