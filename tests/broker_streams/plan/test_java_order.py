"""The order of Java's collections, where it shows in what is written."""

from __future__ import annotations

from broker_streams.plan.java_order import BytesOrder, bytes_hash


def test_bytes_are_hashed_as_by_java() -> None:
    """If this fails, the changelog of a buffer is written in another order than by Kafka Streams."""
    # Arrays.hashCode: bytes are signed.
    assert [bytes_hash(each) for each in (b"", b"a", b"ab", b"\xff")] == [1, 128, 4066, 30]
    assert bytes_hash(b"long enough to overflow") < 1 << 32


def test_a_set_keeps_its_capacity() -> None:
    """If this fails, the order of a later commit depends on nothing that Kafka Streams knows."""
    order = BytesOrder()
    # Buckets of 16: a and q are in the first one, b in the second one.
    assert order.ordered([b"b", b"q", b"a"]) == [b"q", b"a", b"b"]
    letters = [bytes((each,)) for each in b"abcdefghijklm"]
    assert order.ordered(letters) == letters
    # Thirteen keys doubled it: q has a bucket of its own, behind b.
    assert order.ordered([b"b", b"q", b"a"]) == [b"a", b"b", b"q"]
