"""The hash by which a foreign-key join recognizes answers to an older row."""

from __future__ import annotations

import struct

from broker_streams.kernel.murmur3 import hash128


def test_the_hash_is_that_of_the_reference() -> None:
    """If this fails, answers to subscriptions that Kafka Streams wrote are dropped, and the result lacks rows."""
    text = b"The quick brown fox jumps over the lazy dog"
    assert hash128(text, seed=0).hex() == "e34bbc7bbc071b6c7a433ca9c49a9347"
    assert hash128(b"", seed=0) == bytes(16)


def test_the_seed_is_kafkas() -> None:
    """If this fails, an application that moves here from Kafka Streams drops the answers that are on their way."""
    # Kafka Streams 4.3.1 has these hashes of rows 7x and 4z in its store (tests/broker_streams/oracle, foreign keys).
    assert struct.unpack(">qq", hash128(b"7x")) == (-4850900089340444882, -5462779845596615951)
    assert struct.unpack(">qq", hash128(b"4z")) == (-8176148252950967232, 7176282695628673195)
