"""The tagged fields by which an operator changes records of a share group in flight."""

from __future__ import annotations

import pytest

from broker_cy.core.errors import WireError
from broker_cy.wire.share_operations import (
    TAG,
    Changed,
    Operation,
    OperatorAction,
    changed_tags,
    operation_tags,
    read_changed,
    read_operation,
)


@pytest.mark.parametrize("action", list(OperatorAction))
@pytest.mark.parametrize("is_preview", [False, True])
def test_an_operation_is_read_as_it_was_sent(action: OperatorAction, is_preview: bool) -> None:
    """If this fails, a preview changes records, or a leader does something else than the operator has asked for."""
    assert read_operation(operation_tags(Operation(action, is_preview))) == Operation(action, is_preview)


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x02\x00\x00", b"\x01\x00", b"\x04\x00", b"\x06\x00", b"\xff\x00"])
def test_an_unknown_operation_is_refused(data: bytes) -> None:
    """If this fails, a request that is not understood counts as a member's acknowledgement, or changes records."""
    with pytest.raises(WireError, match="no operation"):
        read_operation([(TAG, data)])


def test_requests_and_answers_of_others_have_no_operation() -> None:
    """If this fails, a field of a later Kafka version is taken for an operator's."""
    assert read_operation(()) is None
    assert read_operation([(0, b"\x02\x00")]) is None
    assert read_changed([(0, bytes(16))]) is None
    assert read_changed([(TAG, bytes(15))]) is None
    assert read_changed(changed_tags(Changed(7, 2))) == Changed(7, 2)
