"""The checks that the heartbeats of all newer types of groups have."""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode, KafkaError


def check_text(name: str, text: str | None) -> None:
    """Raises KafkaError(INVALID_REQUEST) if a text is given, and blank: Java's trim removes everything up to the
    space.
    """
    if text is not None and all(letter <= " " for letter in text):
        raise invalid(f"{name} is empty")


def invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
