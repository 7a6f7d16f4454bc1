"""Why a broker was fenced, in records that Apache Kafka reads as well."""

from __future__ import annotations

import pytest

from broker_cy.controller.broker_records import fence_record
from broker_cy.controller.broker_states import FenceBrokers
from broker_cy.metadata import snapshot
from broker_cy.metadata.fence_reasons import TAG, FenceReason, read_tag, tag_of
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.replay import replay
from broker_cy.wire import codec, messages
from tests.broker_cy.controller.brokers import Brokers


def reason_of(image: MetadataImage) -> str:
    return image.brokers[1].fence_reason.name


@pytest.mark.parametrize("reason", FenceReason)
def test_reasons_are_read_as_they_were_written(reason: FenceReason) -> None:
    """If this fails, an event says that another failure happened."""
    cluster = Brokers.of(1)
    record = fence_record(cluster.image.brokers[1], fenced=True, reason=reason)
    data = codec.encode(record.message, record.version)
    read = codec.decode(messages.BrokerRegistrationChangeRecord, record.version, data)
    assert read_tag(read._unknown_tags) == reason


def test_a_reason_that_is_not_known_is_none() -> None:
    """If this fails, a node cannot read the metadata of one of a later version."""
    assert tag_of(FenceReason.UNKNOWN) == ()
    for tags in ((), ((TAG, b""),), ((TAG, b"\xff"),), ((TAG + 1, b"\x01"),)):
        assert read_tag(tags) is FenceReason.UNKNOWN
    assert read_tag(((TAG, b"\x02more"),)) is FenceReason.SESSION_TIMEOUT


def test_the_reason_is_kept_until_the_broker_is_back() -> None:
    """If this fails, the image of a node depends on whether it read a snapshot or the log."""
    cluster = Brokers.of(1)
    cluster.run(FenceBrokers((1,), FenceReason.STANDS_STILL, ended=False))
    assert reason_of(cluster.image) == "STANDS_STILL"
    assert reason_of(cluster.restarted().image) == "STANDS_STILL"
    read = MetadataImage()
    for record in snapshot.records_of(cluster.image):
        replay(read, record.message)
    assert reason_of(read) == "STANDS_STILL"
    cluster.beat(1)
    assert reason_of(cluster.image) == "UNKNOWN"
    assert cluster.beat(1, want_shut_down=True).should_shut_down
    assert reason_of(cluster.image) == "STOPPED"
