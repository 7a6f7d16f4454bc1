"""The stamp of a file: the offsets of the changelogs that it reflects, and the decision whether it fits them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

# A changelog topic may have forgotten a deletion that is older than that (Kafka's default of delete.retention.ms).
DELETIONS_MS: Final = 24 * 3600 * 1000


class Place(NamedTuple):
    """The next offset of a changelog partition, and the id of its topic, "" if it is not known."""

    offset: int
    topic_id: str = ""


def store_of(place: str) -> str:
    """The store of a place. A place is named by its store, or STORE/PARTITION where a store has several partitions."""
    return place.partition("/")[0]


class Stamp(NamedTuple):
    """`places` by name (`store_of`). `token` is the host's own: the number of a batch. `time_ms`: of the write."""

    places: Mapping[str, Place]
    time_ms: int = 0
    token: str = ""

    def data(self) -> bytes:
        return json.dumps({"places": self.places, "time_ms": self.time_ms, "token": self.token}).encode()

    @staticmethod
    def of(data: bytes | None) -> Stamp:
        """Raises ValueError: the bytes are no stamp. None: the stamp of a file without rows."""
        if data is None:
            return Stamp({})
        try:
            found: dict[str, Any] = json.loads(data)
            places = {name: Place(int(offset), str(topic)) for name, (offset, topic) in found["places"].items()}
            return Stamp(places, int(found["time_ms"]), str(found["token"]))
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise ValueError(f"{data[:80]!r} is no stamp") from error


class Log(NamedTuple):
    """A changelog partition now: its first offset, the offset up to which the state may go, and the topic's id.

    `deletions_ms`: it remembers deletions for this time (delete.retention.ms).
    """

    earliest: int
    end: int
    topic_id: str = ""
    deletions_ms: int = DELETIONS_MS


def misfit(place: Place, log: Log, written_ms: int, now_ms: int) -> str | None:
    """The reason why rows up to `place` cannot be continued from the changelog; None: they can."""
    if place.topic_id and log.topic_id and place.topic_id != log.topic_id:
        return "the changelog topic was deleted and made again"
    if place.offset > log.end:
        return f"it is at offset {place.offset}, and the changelog ends at {log.end}"
    if place.offset < log.earliest:
        return f"it is at offset {place.offset}, and the changelog begins at {log.earliest}"
    if place.offset < log.end and now_ms - written_ms >= log.deletions_ms:
        return f"it is older than {log.deletions_ms} ms, and the changelog may have forgotten deletions since"
    return None


def missing(places: Mapping[str, Place], logs: Mapping[str, Log]) -> int:
    """How many offsets lie between `places` and the ends of the changelogs."""
    found = 0
    for name, log in logs.items():
        place = places.get(name)
        found += max(0, log.end - (log.earliest if place is None else place.offset))
    return found
