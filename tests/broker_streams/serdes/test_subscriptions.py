"""Subscriptions and responses of foreign-key joins: Kafka's bytes."""

from __future__ import annotations

from typing import Any

import pytest

from broker_streams.records import NO_HEADERS, Headers
from broker_streams.serdes import SerdeError
from broker_streams.serdes.primitives import LONG, STRING
from broker_streams.serdes.subscriptions import Instruction, Response, ResponseSerde, Subscription, SubscriptionSerde

HASH = bytes(range(16))
SUBSCRIPTIONS = SubscriptionSerde(STRING, "sent", "kept")
RESPONSES = ResponseSerde(STRING)
TOPIC = "app-sent"

ASKED: list[tuple[Subscription, bytes]] = [
    (Subscription(HASH, Instruction.ANSWER_IF_FOUND, "k", 7), b"\x01\x03" + HASH + b"k\x00\x00\x00\x07"),
    (Subscription(None, Instruction.DELETE_AND_ANSWER, "k", 0), b"\x81\x01k\x00\x00\x00\x00"),
    (Subscription(HASH, Instruction.ANSWER_ALWAYS, "", 1), b"\x01\x02" + HASH + b"\x00\x00\x00\x01"),
    # Applications before Kafka Streams 3.4 wrote no partition.
    (Subscription(None, Instruction.DELETE, "key", None, 0), b"\x80\x00key"),
]
ANSWERED: list[tuple[Response, bytes]] = [
    (Response(HASH, "row"), b"\x00" + HASH + b"row"),
    (Response(HASH, None), b"\x00" + HASH),
    (Response(None, None), b"\x80"),
    (Response(None, "row"), b"\x80row"),
]


@pytest.mark.parametrize(("subscription", "data"), ASKED)
def test_a_subscription_has_kafkas_bytes(subscription: Subscription, data: bytes) -> None:
    """If this fails, an application cannot go on with subscriptions that Kafka Streams wrote."""
    assert SUBSCRIPTIONS.serialize(TOPIC, subscription) == data
    assert SUBSCRIPTIONS.deserialize(TOPIC, data) == subscription


@pytest.mark.parametrize(("response", "data"), ANSWERED)
def test_a_response_has_kafkas_bytes(response: Response, data: bytes) -> None:
    """If this fails, answers that Kafka Streams wrote before are lost."""
    assert RESPONSES.serialize("topic", response) == data
    assert RESPONSES.deserialize("topic", data) == response


@pytest.mark.parametrize(
    "data", [b"", b"\x01", b"\x01\x02" + HASH[1:], b"\x82\x01k1234", b"\x81\x09k1234", b"\x81\x01123"]
)
def test_bytes_that_are_no_subscription_are_refused(data: bytes) -> None:
    """If this fails, a damaged subscription asks for another row."""
    with pytest.raises(SerdeError, match=TOPIC):
        SUBSCRIPTIONS.deserialize(TOPIC, data)


@pytest.mark.parametrize("data", [b"", b"\x00" + HASH[1:], b"\x01" + HASH + b"row", b"\x81row"])
def test_bytes_that_are_no_response_are_refused(data: bytes) -> None:
    """If this fails, a damaged answer is joined."""
    with pytest.raises(SerdeError, match="topic"):
        RESPONSES.deserialize("topic", data)


def test_other_values_are_refused() -> None:
    """If this fails, a wrong wiring of a topology shows as an AttributeError."""
    for serde in (SUBSCRIPTIONS, RESPONSES):
        with pytest.raises(SerdeError, match="'row'"):
            serde.serialize(TOPIC, "row")
        assert serde.serialize(TOPIC, None) is serde.deserialize(TOPIC, None) is None
    with pytest.raises(SerdeError, match="None"):
        SUBSCRIPTIONS.serialize(TOPIC, Subscription(None, Instruction.DELETE, None, 0))


class Told:
    """Keeps the topics of its calls."""

    name = "TOLD"

    def __init__(self) -> None:
        self.topics: list[str] = []

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        self.topics.append(topic)
        return b"k"

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        self.topics.append(topic)
        return "k"


def test_keys_are_written_for_kafkas_topic() -> None:
    """If this fails, keys with schemas are registered under another subject, and Kafka Streams does not find them."""
    told = Told()
    serde = SubscriptionSerde(told, "sent", "kept")
    serde.serialize("app-sent", Subscription(None, Instruction.DELETE, "k", 0))
    serde.deserialize("app-kept-changelog", b"\x81\x01k1234")
    assert told.topics == ["app-sent-pk", "app-sent-pk"]


def test_inner_serdes_come_from_the_application() -> None:
    """If this fails, a join of tables without serdes fails at its first row."""
    with pytest.raises(SerdeError, match=r"default\.key\.serde"):
        SubscriptionSerde(None, "sent", "kept").serialize(TOPIC, ASKED[0][0])
    with pytest.raises(SerdeError, match=r"default\.value\.serde"):
        ResponseSerde(None).serialize("topic", ANSWERED[0][0])
    assert SubscriptionSerde(None, "sent", "kept").with_defaults(STRING, LONG).name == "SUBSCRIPTION(sent,kept,STRING)"
    assert ResponseSerde(None).with_defaults(STRING, LONG).name == "RESPONSE(LONG)"


def test_an_answer_goes_back_to_the_partition_of_its_question() -> None:
    """If this fails, answers reach a task that does not have the row, and the result lacks it."""
    assert RESPONSES.partitions_of("topic", "k", Response(None, None, 5), 8) == 5
    assert RESPONSES.partitions_of("topic", "k", Response(None, None), 8) is None
