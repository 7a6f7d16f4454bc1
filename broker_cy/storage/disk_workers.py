"""The workers of each data directory. A disk that is slow, or hangs, occupies only its own."""

from __future__ import annotations

import os
from collections.abc import Mapping

from broker_cy.core.classes import NamedTuple
from broker_cy.storage.jobs import Jobs


class Workers(NamedTuple):
    """The workers of one data directory. The one for notes never waits long for the disk."""

    jobs: Jobs
    notes: Jobs


class DiskWorkers:
    """Workers by data directory; `default` for each path that is in none of these."""

    def __init__(self, default: Workers, by_directory: Mapping[str, Workers] | None = None) -> None:
        self._default = default
        self._by_directory = dict(by_directory or {})

    def of(self, path: str) -> Jobs:
        """For flushes, checkpoints and removals in a data directory, or of a path in it."""
        return self._find(path).jobs

    def notes_of(self, path: str) -> Jobs:
        """For notes of how far its logs were written."""
        return self._find(path).notes

    def _find(self, path: str) -> Workers:
        if not self._by_directory:
            return self._default
        while path not in self._by_directory:
            parent = os.path.dirname(path)
            if parent == path:
                return self._default
            path = parent
        return self._by_directory[path]
