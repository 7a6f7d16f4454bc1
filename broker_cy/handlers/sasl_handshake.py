"""SaslHandshake, versions 0 and 1, of a client that is logged in or on a listener without SASL: as in Kafka it is
refused.

A login is handled before any handler (connections.login), also a second one (KIP-368). Omissions: none.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import BOTH, handler
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.SASL_HANDSHAKE, versions=(0, 1), requires="", on=BOTH)
def sasl_handshake(ctx: RequestContext, request: messages.SaslHandshakeRequest) -> messages.SaslHandshakeResponse:
    return messages.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
