"""Java's share consumers and static members (KafkaSharers.java) see the same with our broker and with Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.test_confluent_share import SETTINGS
from tests.support import kafka_tools, needs
from tests.support.both_brokers import running

pytestmark = [pytest.mark.full, needs.kafka]
TRANSACTIONS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
# The program waits at most a minute for each of some 40 events, and needs 20 s on a machine that is not busy.
TIMEOUT_S = 600.0


def shown(kind: str, directory: Path) -> list[str]:
    """Return the lines that the program prints with a broker of this kind."""
    source = Path(__file__).with_name("KafkaSharers.java")
    with running(kind, directory, {**SETTINGS, **TRANSACTIONS}) as broker:
        return kafka_tools.run_program(source, broker.bootstrap, timeout_s=TIMEOUT_S).stdout.decode().splitlines()


@pytest.mark.timeout(2 * TIMEOUT_S + 300)
def test_an_application_sees_what_it_sees_with_kafka(tmp_path: Path) -> None:
    """If this fails, a Java application loses records that it keeps, reads aborted records, starts at a wrong offset,
    gets more records than it asked for or a poison record without end, or two static members share an id.
    """
    ours, theirs = (shown(kind, tmp_path / kind) for kind in ("broker-cy", "kafka"))
    assert theirs[-1] == "done"
    assert ours == theirs
