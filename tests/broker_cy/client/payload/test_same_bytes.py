"""The bytes that a seed gives: runs of different releases can be compared only if they stay the same."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from broker_cy.client.payload.keys import KeySource
from broker_cy.client.payload.settings import Keys, Payload
from broker_cy.client.payload.values import ValueSource

FIELDS: dict[str, dict[str, Any]] = {
    "i": {"kind": "int", "min": -5, "max": 99},
    "f": {"kind": "float", "min": 0, "max": 1, "digits": 3},
    "c": {"kind": "choice", "values": ["a", 1], "weights": [1, 3]},
    "s": {"kind": "string", "min": 1, "max": 9},
    "k": {"kind": "constant", "value": None},
    "u": {"kind": "uuid"},
    "t": {"kind": "timestamp", "format": "iso"},
    "n": {"kind": "sequence", "start": 3, "step": 2},
}


@pytest.mark.parametrize(
    ("payload", "prefix_bytes", "checksum"),
    [
        (Payload(size=50), 0, 134946042),
        (Payload(size=50, entropy=0.25), 32, 2858313281),
        (Payload("sizes", 0, 40, 900), 32, 2894599508),
        (Payload("sizes", 0, 40, 900, "uniform"), 0, 3155554236),
        (Payload("json", fields=FIELDS), 0, 2450878517),
        (Payload("file", lines=(b"a", b"b", b"c")), 0, 4230795109),
    ],
)
def test_values(payload: Payload, prefix_bytes: int, checksum: int) -> None:
    """If this fails, a run of this release cannot be compared with one of an earlier release."""
    cursor = ValueSource(payload, 7, now=lambda: 1_700_000_000.5, prefix_bytes=prefix_bytes).cursor(3)
    assert zlib.crc32(b"|".join(cursor.next() for _ in range(500))) == checksum


@pytest.mark.parametrize(
    ("keys", "checksum"),
    [
        (Keys(), 2244192337),
        (Keys("sequential", 9), 2265891288),
        (Keys("uniform", 50), 3038721318),
        (Keys("zipf", 50, 1.2, 12), 1922486400),
    ],
)
def test_keys(keys: Keys, checksum: int) -> None:
    """If this fails, hot partitions of a run of this release are others than those of an earlier release."""
    cursor = KeySource(keys, 7, 6).cursor(3)
    assert zlib.crc32(repr([cursor.next() for _ in range(500)]).encode()) == checksum
