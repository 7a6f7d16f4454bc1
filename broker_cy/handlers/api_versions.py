"""ApiVersions, versions 0 to 4: the APIs that the listener of the request serves, derived from the registry.

A version beyond these is answered in version 0 (KIP-511).

Features: the levels finalized in the metadata log, and those that this broker supports. Omissions: none.
"""

from __future__ import annotations

import re

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import BOTH, ListenerKind, handler, registrations
from broker_cy.controller.pulse import LIVENESS
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.features import KRAFT_VERSION
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

# KIP-511: the allowed form of a client's software name and version.
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def served(kind: ListenerKind = ListenerKind.BROKER) -> list[messages.ApiVersionsResponse.ApiVersion]:
    """One entry per API, in the order of keys."""
    return [
        messages.ApiVersionsResponse.ApiVersion(
            api_key=int(key), min_version=entry.advertised_min, max_version=entry.max_version
        )
        for key, entry in sorted(registrations(kind).items())
        if entry.is_advertised
    ]


@handler(ApiKey.API_VERSIONS, versions=(0, 4), on=BOTH, requires="")
def api_versions(ctx: RequestContext, request: messages.ApiVersionsRequest | None) -> messages.ApiVersionsResponse:
    """`request` is None if its version is unknown."""
    kind = ListenerKind.CONTROLLER if ctx.is_for_controller else ListenerKind.BROKER
    if request is None:
        # Version 0 has only the ranges; the client needs that of ApiVersions to ask again.
        return messages.ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[entry for entry in served(kind) if entry.api_key == ApiKey.API_VERSIONS],
        )
    if ctx.version >= 3 and not (
        SOFTWARE.fullmatch(request.client_software_name) and SOFTWARE.fullmatch(request.client_software_version)
    ):
        return messages.ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    controller = ctx.broker.controller
    features = ctx.broker.image.features
    response = messages.ApiVersionsResponse(api_keys=served(kind))
    response.supported_features = [
        messages.ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in controller.supported_features.items()
        # KIP-584, KAFKA-17011: clients of version 3 do not take a minimum of 0.
        if ctx.version >= 4 or low > 0
    ]
    finalized = features.finalized
    if controller.kraft_version:
        # Kept by the quorum.
        finalized[KRAFT_VERSION] = controller.kraft_version
    if request.client_software_name == LIVENESS:
        # Another node of this kind wants to know whether this is one.
        response.supported_features.append(
            messages.ApiVersionsResponse.SupportedFeatureKey(name=LIVENESS, min_version=1, max_version=1)
        )
    response.finalized_features_epoch = features.epoch
    response.finalized_features = [
        messages.ApiVersionsResponse.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
        for name, level in finalized.items()
    ]
    return response
