"""A log of many records with few keys, for compaction: generated in batches by numpy, with a check of the remaining
records.

Record n has offset n, a key drawn from a seed and a value that begins with n as an int64: each target gets the same
log, and each remaining record can be checked by itself. All records have the same size except for their offset's
varint, so that a batch is a template in which keys, numbers and checksums are set.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bench.wire import protocol
from bench.wire.raw import crc32c

SEED = 1
KEY_DIGITS = 7
KEYS_MAX = 10**KEY_DIGITS
KEY = b"key%0*d"
VALUE_BYTES = 100
NUMBER_BYTES = 8  # at the start of a value: the record's number
CHUNK_RECORDS = 500_000  # made at a time: 60 MB
CRC_AT, COVERED_AT = 17, 21  # in a batch: its CRC-32C, and the first byte that it covers


class KeyedLogError(Exception):
    """A compacted log does not have the records that must remain."""


@dataclass
class KeyedLog:
    """`records` records with `keys` keys in batches of at most `batch_bytes`; `last` is complete once all are made."""

    records: int
    keys: int
    batch_bytes: int
    last: npt.NDArray[np.int64] = field(init=False)  # by key: the offset of its newest record; -1 without one
    made: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.last = np.full(self.keys, -1, dtype=np.int64)
        self.value = random.Random(SEED).randbytes(VALUE_BYTES)

    def batches(self) -> Iterator[list[tuple[bytes, int]]]:
        """Yield encoded batches with their numbers of records, in chunks, from the beginning of the log."""
        source = np.random.default_rng(SEED)
        self.last[:] = -1
        self.made = 0
        each = self._records_of_a_batch()
        while self.made < self.records:
            count = min(CHUNK_RECORDS // each * each or each, self.records - self.made)
            drawn = source.integers(0, self.keys, count)
            numbers = np.arange(self.made, self.made + count, dtype=np.int64)
            self.last[drawn] = numbers  # if a key was drawn twice, its last record is kept
            whole = count // each * each
            chunk = self._encoded(each, drawn[:whole], numbers[:whole])
            if whole < count:
                chunk += self._encoded(count - whole, drawn[whole:], numbers[whole:])
            self.made += count
            yield chunk

    def _records_of_a_batch(self) -> int:
        fit = max(1, self.batch_bytes // protocol.len_of_record(VALUE_BYTES))
        while fit > 1 and len(self._template(fit)[0]) > self.batch_bytes:
            fit -= 1
        return fit

    def _template(self, count: int) -> tuple[bytes, list[int]]:
        """Return a batch of `count` records, and where each record ends in it."""
        parts, ends, at = [], [], 61
        for delta in range(count):
            parts.append(protocol.record(delta, KEY % (KEY_DIGITS, 0), self.value))
            at += len(parts[-1])
            ends.append(at)
        return protocol.batch_of(b"".join(parts), count), ends

    def _encoded(
        self, each: int, drawn: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
    ) -> list[tuple[bytes, int]]:
        if not len(drawn):
            return []
        template, ends = self._template(each)
        rows = np.tile(np.frombuffer(template, dtype=np.uint8), (len(drawn) // each, 1))
        # From a record's end: the number of headers, the value, its length (two bytes), the key.
        values = np.array(ends) - 1 - VALUE_BYTES
        keys = values - len(protocol.varint(VALUE_BYTES)) - KEY_DIGITS
        for digit in range(KEY_DIGITS):
            column = drawn // 10 ** (KEY_DIGITS - 1 - digit) % 10 + ord("0")
            rows[:, keys + digit] = column.reshape(-1, each).astype(np.uint8)
        reported = numbers.astype(">i8").view(np.uint8).reshape(-1, each, NUMBER_BYTES)
        for byte in range(NUMBER_BYTES):
            rows[:, values + byte] = reported[:, :, byte]
        made = []
        for row in rows:
            data = row.tobytes()
            crc = struct.pack(">I", crc32c(memoryview(data)[COVERED_AT:]))
            made.append((data[:CRC_AT] + crc + data[COVERED_AT:], each))
        return made


class Leftover:
    """Checks the records that remain in a compacted log, in their order."""

    def __init__(self, log: KeyedLog) -> None:
        self.log = log
        self.newest = np.full(log.keys, -1, dtype=np.int64)
        self.records = 0
        self.offset = -1

    def take(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Add one record. Raises KeyedLogError if the log does not contain it, or if it is out of order."""
        if offset <= self.offset:
            raise KeyedLogError(f"offset {offset} after {self.offset}")
        self.offset = offset
        self.records += 1
        number = int.from_bytes(value[:NUMBER_BYTES], "big") if value is not None else None
        if number != offset or value is None or value[NUMBER_BYTES:] != self.log.value[NUMBER_BYTES:]:
            raise KeyedLogError(f"offset {offset} has a value that was written at {number}, or is damaged")
        prefix, digits = (key or b"")[:3], (key or b"")[3:]
        if prefix != KEY[:3] or len(digits) != KEY_DIGITS or not digits.isdigit() or int(digits) >= self.log.keys:
            raise KeyedLogError(f"offset {offset} has the key {key!r}")
        self.newest[int(digits)] = offset

    def check(self) -> None:
        """Check that each key's newest record is the last one that was written. Raises KeyedLogError."""
        wrong = np.flatnonzero(self.newest != self.log.last)
        if len(wrong):
            key = int(wrong[0])
            raise KeyedLogError(
                f"{len(wrong)} of {self.log.keys} keys lost their latest value; the first: key {key}, "
                f"offset {self.newest[key]} in place of {self.log.last[key]} (-1: none)"
            )
