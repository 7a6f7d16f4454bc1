"""Changes that an operator makes to the records of a share group in flight: tagged fields of ShareAcknowledge (KIP-482)
that Kafka's specification does not have.

The request names the group, the member whose records change (an empty id: of any member), and ranges of offsets
without acknowledge types. Its session epoch is SESSION_EPOCH, which no session has, so that a broker that does not
know the field refuses the request. The answer has the numbers of records beside the error code of each partition.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import WireError

TAG: Final = 10_000
SESSION_EPOCH: Final = -2
_REQUEST: Final = struct.Struct(">bb")
_CHANGED: Final = struct.Struct(">qq")

Tags = tuple[tuple[int, bytes], ...]


class OperatorAction(IntEnum):
    """Release and reject have the numbers of Kafka's acknowledge types."""

    RELEASE = 2
    REJECT = 3
    REDRIVE = 5


class Operation(NamedTuple):
    """`is_preview`: the leaders only count the records."""

    action: OperatorAction
    is_preview: bool


class Changed(NamedTuple):
    """Records that were changed, and how many of them a release has archived, after their last delivery."""

    records: int
    archived: int


def operation_tags(operation: Operation) -> Tags:
    return ((TAG, _REQUEST.pack(*operation)),)


def read_operation(tags: Iterable[tuple[int, bytes]]) -> Operation | None:
    """The argument of `operation_tags`; None without the field. Raises WireError if it is not understood."""
    data = dict(tags).get(TAG)
    if data is None:
        return None
    try:
        action, is_preview = _REQUEST.unpack(data)
        return Operation(OperatorAction(action), bool(is_preview))
    except (struct.error, ValueError):
        raise WireError(f"{data.hex()} is no operation of an operator", f"tag {TAG}") from None


def changed_tags(changed: Changed) -> Tags:
    return ((TAG, _CHANGED.pack(*changed)),)


def read_changed(tags: Iterable[tuple[int, bytes]]) -> Changed | None:
    """The argument of `changed_tags`; None without the field, or if it is not understood."""
    data = dict(tags).get(TAG, b"")
    return Changed(*_CHANGED.unpack(data)) if len(data) == _CHANGED.size else None
