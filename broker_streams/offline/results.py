"""Records of two sides in a file on disk, and the differences between them: memory does not grow with their number.

    results = Results()
    results.add(Side.OLD, topic, rows)
    results.contents(topic)      records that one side has more often
    results.finals(topic)        keys whose last value differs
    results.orders(topic)        partitions whose records have another order

A partition of -1: the producer chose it, and it is not compared.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from broker_streams.records import Headers

ANY_PARTITION: Final = -1
# Pages of the file in memory, in KiB.
_CACHE_KIB: Final = 65_536


class Side(IntEnum):
    OLD = 0
    NEW = 1


class Row(NamedTuple):
    """A record of a topic."""

    partition: int
    key: bytes | None
    value: bytes | None
    at_ms: int
    headers: Headers = ()


class ContentDifference(NamedTuple):
    """A record with its number on both sides."""

    row: Row
    old: int
    new: int


class FinalDifference(NamedTuple):
    """A key with its last values; None: deleted, or never written."""

    partition: int
    key: bytes | None
    old: bytes | None
    new: bytes | None


class Results:
    """The file is in a temporary directory, which `close` deletes."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="broker-streams-")
        self._file = sqlite3.connect(Path(self._directory.name) / "records", isolation_level=None)
        for line in (
            "PRAGMA journal_mode=OFF",
            "PRAGMA synchronous=OFF",
            f"PRAGMA cache_size=-{_CACHE_KIB}",
            "PRAGMA temp_store=FILE",
            "CREATE TABLE r (side INT, topic TEXT, partition INT, key BLOB, value BLOB, at INT, headers BLOB)",
        ):
            self._file.execute(line)
        self._indexed = False

    def add(self, side: Side, topic: str, rows: Iterable[Row]) -> None:
        """Add records in their order."""
        self._indexed = False
        self._file.execute("BEGIN")
        self._file.executemany(
            "INSERT INTO r VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((int(side), topic, *row[:4], _packed(row.headers)) for row in rows),
        )
        self._file.execute("COMMIT")

    def _index(self) -> None:
        if not self._indexed:
            self._file.execute("CREATE INDEX IF NOT EXISTS of_topic ON r (topic, partition, key, side)")
            self._indexed = True

    def topics(self) -> list[str]:
        self._index()
        return [name for (name,) in self._file.execute("SELECT DISTINCT topic FROM r ORDER BY topic")]

    def counts(self, topic: str) -> tuple[int, int]:
        """The records of both sides."""
        self._index()
        found = self._file.execute("SELECT SUM(side = 0), SUM(side = 1) FROM r WHERE topic = ?", (topic,)).fetchone()
        return int(found[0] or 0), int(found[1] or 0)

    def contents(self, topic: str) -> Iterator[ContentDifference]:
        """By partition and key."""
        self._index()
        query = (
            "SELECT partition, key, value, at, headers, SUM(side = 0), SUM(side = 1) FROM r WHERE topic = ?"
            " GROUP BY partition, key, value, at, headers HAVING SUM(side = 0) <> SUM(side = 1)"
            " ORDER BY partition, key, MIN(rowid)"
        )
        for partition, key, value, at_ms, headers, old, new in self._file.execute(query, (topic,)):
            yield ContentDifference(Row(partition, key, value, at_ms, _unpacked(headers)), old, new)

    def finals(self, topic: str) -> Iterator[FinalDifference]:
        """By partition and key. Records without a key are no rows of a table."""
        self._index()
        # With MAX, the other columns are those of its row.
        query = (
            "WITH last AS (SELECT side, partition, key, value, MAX(rowid) FROM r WHERE topic = ? AND key IS NOT NULL"
            " GROUP BY partition, key, side)"
            " SELECT partition, key, MAX(CASE side WHEN 0 THEN value END) AS old,"
            " MAX(CASE side WHEN 1 THEN value END) AS new FROM last GROUP BY partition, key HAVING old IS NOT new"
            " ORDER BY partition, key"
        )
        for row in self._file.execute(query, (topic,)):
            yield FinalDifference(*row)

    def orders(self, topic: str) -> list[int]:
        """The partitions whose records are not the same ones in the same order."""
        self._index()
        partitions = self._file.execute(
            "SELECT DISTINCT partition FROM r WHERE topic = ? AND partition >= 0 ORDER BY partition", (topic,)
        )
        return [number for (number,) in partitions.fetchall() if not self._same_order(topic, number)]

    def _same_order(self, topic: str, partition: int) -> bool:
        query = "SELECT key, value, at, headers FROM r WHERE topic = ? AND partition = ? AND side = ? ORDER BY rowid"
        old = self._file.cursor().execute(query, (topic, partition, 0))
        new = self._file.cursor().execute(query, (topic, partition, 1))
        while True:
            one, other = old.fetchone(), new.fetchone()
            if one != other:
                return False
            if one is None:
                return True

    def of_key(self, side: Side, topic: str, partition: int, key: bytes | None, limit: int) -> list[Row]:
        """The first records of a key, in their order."""
        self._index()
        query = (
            "SELECT partition, key, value, at, headers FROM r WHERE topic = ? AND partition = ? AND key IS ?"
            " AND side = ? ORDER BY rowid LIMIT ?"
        )
        found = self._file.execute(query, (topic, partition, key, int(side), limit))
        return [Row(number, data, value, at_ms, _unpacked(headers)) for number, data, value, at_ms, headers in found]

    def close(self) -> None:
        self._file.close()
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _packed(headers: Headers) -> bytes | None:
    if not headers:
        return None
    return json.dumps([[name, None if value is None else value.hex()] for name, value in headers]).encode()


def _unpacked(data: bytes | None) -> Headers:
    if data is None:
        return ()
    return tuple((name, None if value is None else bytes.fromhex(value)) for name, value in json.loads(data))
