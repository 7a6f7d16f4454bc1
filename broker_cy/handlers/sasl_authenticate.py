"""SaslAuthenticate, versions 0 to 2, of a client that is logged in or on a listener without SASL: as in Kafka it is
refused.

A login is handled before any handler (connections.login). Omissions: none.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import BOTH, handler
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.SASL_AUTHENTICATE, versions=(0, 2), requires="", on=BOTH)
def sasl_authenticate(
    ctx: RequestContext, request: messages.SaslAuthenticateRequest
) -> messages.SaslAuthenticateResponse:
    return messages.SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
