"""The figures of a read: counted in each process, and written to a directory if the option `report` names one.

In Spark a Python source cannot return figures in addition to its rows. Each task writes its own file; a repeated task
replaces it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields

from broker_cy.storage.atomic import write_atomically

# Places of damage that are named, for each task and in total: more than users examine.
PLACES_MAX = 20


@dataclass
class Counters:
    """Figures of one task, or of the plan. `bytes_read` counts all requested bytes of segments and indexes."""

    bytes_read: int = 0
    batches: int = 0
    records: int = 0
    # Damage that was left out (onDamage=skip): places, and the bytes that were skipped after each.
    damaged: int = 0
    damaged_bytes: int = 0
    # The first of the places: file, byte, offset and reason of each.
    places: list[str] = field(default_factory=list)

    def add(self, other: Counters) -> None:
        """Add the figures of another task."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        del self.places[PLACES_MAX:]


def write(directory: str | None, name: str, counters: Counters) -> None:
    """Write the figures of task `name`, if a directory is given."""
    if directory is None:
        return
    os.makedirs(directory, exist_ok=True)
    write_atomically(f"{directory}/{name}.json", json.dumps(asdict(counters)).encode(), sync=False)


def total(directory: str | os.PathLike[str]) -> Counters:
    """Return the sum of the figures in a directory."""
    found = Counters()
    for name in sorted(os.listdir(directory)):
        if name.endswith(".json"):
            with open(f"{os.fspath(directory)}/{name}") as file:
                found.add(Counters(**json.load(file)))
    return found
