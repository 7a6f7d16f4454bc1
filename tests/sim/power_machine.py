"""A machine whose power cuts leave a given part of the unsynced data, for tests of single losses."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from broker_cy.storage import written_points
from tests.support.power import Disk

# A file system that does not reuse inodes, which Disk relies on.
MEMORY = "/dev/shm"


class Least(random.Random):
    """Draws with which a power cut leaves only synced data: Disk then takes the first of the possible values."""

    def random(self) -> float:
        return 0.0

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def randint(self, a: int, b: int) -> int:
        return a


class Zeros(Least):
    """Names and sizes of files are the latest, and the bytes that were not synced are zeros."""

    def choice(self, seq: Any) -> Any:
        return seq[1] if isinstance(seq[0], int) else seq[0]


class Machine(Disk):
    """A disk in use whose cuts leave what `draw` determines; each cut is followed by another start of the machine."""

    def __init__(self, root: str, draw: Least) -> None:
        super().__init__(root, draw)
        self.boots = 0
        self._use = ExitStack()

    def start(self) -> None:
        self._use.enter_context(self.installed())

    def stop(self) -> None:
        self._use.close()

    def cut(self) -> None:
        self.stop()
        super().cut()
        self.boots += 1
        self.start()


@contextmanager
def machine_in_memory(monkeypatch: pytest.MonkeyPatch, draw: Least) -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="power-losses-") as root:
        machine = Machine(root, draw)
        monkeypatch.setattr(written_points, "boot_id", lambda: b"boot-%d" % machine.boots)
        machine.start()
        try:
            yield machine
        finally:
            machine.stop()
