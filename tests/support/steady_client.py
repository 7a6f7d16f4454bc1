"""A client in a separate process that writes and reads at a steady rate (bench/steady_clients)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from bench.steady_clients.programs import CLIENTS, LineProgram, acked
from tests.support.acked import read_partition
from tests.support.wait import until


class SteadyClient(LineProgram):
    """A client with its own topic and group."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int, directory: Path) -> None:
        self.topic, self.partitions = topic, partitions
        self.acked: dict[int, tuple[int, int]] = {}  # partition and offset by number
        self.read: set[int] = set()
        self.reported: list[str] = []
        self.longest_gap_s = 0.0
        self._last_us = [time.time_ns() // 1000] * partitions
        words = [bootstrap, topic, f"group-of-{topic}", str(partitions)]
        super().__init__([*CLIENTS[name](), *words], directory, name)

    def took(self, line: str) -> None:
        super().took(line)
        kind, _, rest = line.partition(" ")
        if (found := acked(line)) is not None:
            self.acked[found.number] = found.partition, found.offset
            gap_s = (found.acked_us - self._last_us[found.partition]) / 1e6
            self.longest_gap_s = max(self.longest_gap_s, gap_s)
            self._last_us[found.partition] = found.acked_us
        elif kind == "read":
            self.read.add(int(rest))
        elif kind in ("failed", "error"):
            self.reported.append(line)

    def go_on(self, wait_s: float) -> None:
        """Wait until every partition has acknowledged more, and the group has read more."""
        counts = self._counts()
        read = len(self.read)

        def went_on() -> bool:
            return all(now > before + 5 for now, before in zip(self._counts(), counts, strict=True)) and (
                len(self.read) > read + 5
            )

        until(went_on, f"progress of {self.name} ({self.lines[-3:]})", wait_s, 0.05)

    def _counts(self) -> list[int]:
        counts = [0] * self.partitions
        for partition, _ in list(self.acked.values()):
            counts[partition] += 1
        return counts

    def check(self, ports: Sequence[int]) -> None:
        """Check that every acknowledged record is at its offset at the leader of its partition; the leaders' ports are
        given.
        """
        for partition, port in enumerate(ports):
            at = dict(read_partition(("127.0.0.1", port), self.topic, partition))
            wrong = [
                (number, offset)
                for number, (where, offset) in self.acked.items()
                if where == partition and at.get(offset) != b"%d" % number
            ]
            assert not wrong, f"{self.name}: acknowledged records that are not there: {wrong[:5]}"
