"""The results of a commit as batches."""

from __future__ import annotations

from broker_cy.admin.produce import BATCH_BYTES_MAX, RECORDS_MAX, size_of
from broker_cy.wire.records import Record
from broker_streams.hosts.results import Results


def test_records_keep_their_order_in_each_partition() -> None:
    """If this fails, results get to another partition, or in another order, than tasks wrote them."""
    results = Results()
    headers = (("trace", b"1"), ("none", None))
    results.add(
        [("out", 1, b"a", b"1", 10, ()), ("out", None, None, None, 11, headers), ("out", 1, b"a", None, 12, ())]
    )
    results.add_changes([("log", b"k", b"v", 13, ()), ("out", b"k", memoryview(b"v"), 14, ())], 1)  # type: ignore[list-item]
    assert results.batches() == {
        ("out", 1): [
            [
                Record(key=b"a", value=b"1", timestamp=10),
                Record(key=b"a", timestamp=12),
                Record(key=b"k", value=b"v", timestamp=14),
            ]
        ],
        ("out", None): [[Record(timestamp=11, headers=headers)]],
        ("log", 1): [[Record(key=b"k", value=b"v", timestamp=13)]],
    }
    assert len(results) == 5
    assert not Results()


def test_no_batch_is_larger_than_the_producers() -> None:
    """If this fails, brokers refuse a batch, and the application ends."""
    results = Results()
    value = bytes(BATCH_BYTES_MAX // 3)
    results.add([("out", 0, None, value, 0, (("name", value),) if number % 2 else ()) for number in range(9)])
    (batches,) = results.batches().values()
    assert [sum(map(size_of, batch)) <= BATCH_BYTES_MAX for batch in batches] == [True] * len(batches)
    assert sum(map(len, batches)) == 9
    assert results.size_bytes == sum(size_of(record) for batch in batches for record in batch)
    results.add([("small", 0, None, b"", 0, ())] * (RECORDS_MAX + 1))
    assert [len(batch) for batch in results.batches()["small", 0]] == [28125, 28125, 28125, 15626]
    results = Results()
    results.add([("large", 0, None, bytes(2 * BATCH_BYTES_MAX), 0, ())] * 2)
    assert [len(batch) for batch in results.batches()["large", 0]] == [1, 1]
