"""The fixtures of moves between two data directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.storage.moves import replica_moves
from tests.broker_cy.storage.moves.two_disks import Disks
from tests.sim.real_partitions import new_directory


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_moves, "STEP_BYTES", 700)
    monkeypatch.setattr(replica_moves, "CAUGHT_UP_BYTES", 300)


@pytest.fixture
def disks() -> Iterator[Disks]:
    with new_directory() as path:
        yield Disks(Path(path))
