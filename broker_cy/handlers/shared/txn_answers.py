"""Common parts of the responses of the transaction APIs."""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode


def fenced_before(version_fenced: int, version: int, code: ErrorCode) -> ErrorCode:
    """Return the code that clients of `version` know: INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED below
    `version_fenced` (KIP-588).
    """
    if code is ErrorCode.PRODUCER_FENCED and version < version_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
