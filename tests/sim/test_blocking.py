"""The simulated world reports calls that may block an event loop; docs/architecture.md lists those that are allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sim.defects import must_find
from tests.sim.world import blocking
from tests.sim.world.blocking import ALLOWED, COMPILED, READ, SYNC, Allowed, called, turn_of, worker
from tests.sim.world.blocking_planted import BLOCKING
from tests.sim.world.run import run_seed
from tests.sim.world.slow import tiered
from tests.support import needs

ARCHITECTURE = Path(__file__).resolve().parents[2] / "docs/architecture.md"
SEEDS = 10


@needs.memory
@pytest.mark.parametrize("name", tiered(BLOCKING))
def test_a_call_that_blocks_the_loop_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker may wait for its disk on the event loop, and no test notices: time is virtual there."""
    planted = BLOCKING[name]

    def run(seed: int) -> None:
        failure = run_seed(seed, planted.profile).failure
        if failure is None:
            return
        if not re.match(rf"the event loop of \w+ may block: (\d+ of )?{planted.kind} in ", str(failure)):
            pytest.fail(f"seed {seed} fails in another way: {failure!r}")
        raise failure

    must_find(planted.plant, run, monkeypatch, SEEDS, key=f"blocking: {name}", first=0)


def test_the_document_lists_what_is_allowed() -> None:
    """If this fails, an operator who looks for the cause of a slow broker, or a developer who adds a call, has a wrong
    list.
    """
    text = ARCHITECTURE.read_text()
    section = text[text.index("## The event loop") : text.index("## Bounds")]
    rows = re.findall(r"^\| (\w+) \| `([^`]+)` \| [^|]+ \| [^|]+ \|$", section, re.MULTILINE)
    assert sorted(rows) == sorted((each.kind, each.function) for each in ALLOWED)


def test_only_the_loop_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, worlds report calls of workers, or of a start before it serves clients."""
    monkeypatch.setattr(blocking, "_BY_KIND", {READ: {COMPILED: Allowed(READ, COMPILED, 2)}, SYNC: {}})
    with turn_of("host", is_watched=False):
        called(SYNC)
    with turn_of("host", is_watched=True), worker():
        called(SYNC)
    with turn_of("host", is_watched=True):
        called(READ)
        called(READ)
    with (
        pytest.raises(AssertionError, match="3 of read in compiled code, and 2 are allowed"),
        turn_of("host", is_watched=True),
    ):
        called(READ, 3)
    with (
        pytest.raises(AssertionError, match="the event loop of host may block: sync in compiled code"),
        turn_of("host", is_watched=True),
    ):
        called(SYNC)
    called(SYNC)
