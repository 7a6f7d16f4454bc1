"""The memory that transactional ids cost the coordinator, which keeps every id that was used within a week."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from broker_cy.coordinator.txn.init import init_producer_id
from broker_cy.coordinator.txn.partitions import add
from broker_cy.coordinator.txn.settings import TxnSettings
from broker_cy.coordinator.txn.state import ProducerIdAndEpoch
from broker_cy.coordinator.txn.transaction_machine import TransactionMachine
from broker_cy.core.step import Now

COUNT = 10_000
NOW = Now(1_700_000_000_000, 5)


@pytest.mark.parametrize(
    ("partitions", "bytes_max"),
    [pytest.param(0, 500, marks=pytest.mark.full), pytest.param(1, 800, marks=pytest.mark.full), (4, 1_000)],
)
def test_ten_thousand_transactional_ids(partitions: int, bytes_max: int) -> None:
    """If this fails, a broker with many producers runs out of memory."""
    machine = TransactionMachine(TxnSettings())
    machine.transaction_version = 2
    machine.producer_ids = list(range(1_000_000 + COUNT, 1_000_000, -1))
    topics = [f"topic-{index}" for index in range(partitions)]
    tracemalloc.start()
    try:
        for number in range(COUNT):
            name = f"payments-{number:07d}"
            machine.written([machine.run(init_producer_id, name, 60_000, None, None, NOW)], NOW)
            if partitions:
                found = machine.transactions[name]
                producer = ProducerIdAndEpoch(found.producer_id, found.producer_epoch)
                # Each request brings new set and pair objects.
                asked = frozenset((topic, number % 3) for topic in topics)
                machine.written([machine.run(add, name, producer, asked, 2, None, NOW)], NOW)
        gc.collect()
        each = tracemalloc.get_traced_memory()[0] / COUNT
    finally:
        tracemalloc.stop()
    assert len(machine.transactions) == COUNT
    assert len(machine.ongoing) == (COUNT if partitions else 0)
    assert each <= bytes_max
    print(f"{partitions} partitions: {each:.0f} bytes each")
