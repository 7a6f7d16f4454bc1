"""What the answers of the transaction APIs have in common."""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode


def fenced_before(version_fenced: int, version: int, code: ErrorCode) -> ErrorCode:
    """The code as clients of `version` know it: PRODUCER_FENCED is INVALID_PRODUCER_EPOCH below `version_fenced`
    (KIP-588).
    """
    if code is ErrorCode.PRODUCER_FENCED and version < version_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
