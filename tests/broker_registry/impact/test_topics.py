"""The topics of a subject."""

from __future__ import annotations

import pytest

from broker_registry.impact.topics import Place, place_in, place_of
from broker_registry.serdes.strategies import Strategy

EXISTING = {"orders", "orders-value", "a-key"}


@pytest.mark.parametrize(
    ("subject", "record", "place"),
    [
        ("orders-value", "x.Order", Place(("orders",), False, Strategy.TOPIC_NAME)),
        ("orders-key", None, Place(("orders",), True, Strategy.TOPIC_NAME)),
        (":.test:orders-value", None, Place(("orders",), False, Strategy.TOPIC_NAME)),
        # A topic may have a name that ends like a subject.
        ("orders-value-value", None, Place(("orders-value",), False, Strategy.TOPIC_NAME)),
        ("orders-x.Order", "x.Order", Place(("orders",), False, Strategy.TOPIC_RECORD_NAME)),
    ],
)
def test_a_subject_has_the_topic_of_its_strategy(subject: str, record: str | None, place: Place) -> None:
    """If this fails, a change is tried on the records of another topic."""
    assert place_of(subject, record, EXISTING) == place


def test_a_subject_without_a_topic_is_an_error() -> None:
    """If this fails, a trial of no records says that nothing breaks."""
    with pytest.raises(ValueError, match="may be in any topic"):
        place_of("x.Order", "x.Order", EXISTING)
    for subject in ("absent-value", "orders", "orders-y.Order"):
        with pytest.raises(ValueError, match="no topic of the cluster follows"):
            place_of(subject, "x.Order", EXISTING)


def test_topics_that_are_named_share_their_records() -> None:
    """If this fails, records of other subjects count as broken."""
    assert place_in("x.Order", ["a", "b"]) == Place(("a", "b"), False, Strategy.RECORD_NAME)
    assert not place_in("x.Order", ["a"]).is_alone
    assert place_in("a-value", ["a"]).is_alone
    assert place_in("a-key", ["a"]) == Place(("a",), True, Strategy.TOPIC_NAME)
    assert place_in("x.Key", ["a"], is_key=True).is_key
