"""UpdateFeatures (57), versions 0-2: levels of features, all of a request or none (KIP-584).

transaction.version can be set to 0, 1 and 2, eligible.leader.replicas.version to 0 and 1, kraft.version to 1, and
metadata.version to each level up to 30, but not back beyond one that changed the form of records. Kafka ignores
AllowDowngrade of version 0, so that version cannot downgrade. Before version 2 success is reported for each
feature; errors never are.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.controller.feature_ops import UPGRADE, FeatureUpdate
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

VERSION_TYPES = 1
VERSION_ONE_RESULT = 2


def _failed(
    _: RequestContext, request: messages.UpdateFeaturesRequest, error: KafkaError
) -> messages.UpdateFeaturesResponse:
    message = error.message
    if error.code is ErrorCode.INVALID_UPDATE_VERSION:
        message = f"The update failed for all features since the following feature had an error: {message}"
    return messages.UpdateFeaturesResponse(error_code=error.code, error_message=message)


@handler(ApiKey.UPDATE_FEATURES)
@at_controller(messages.UpdateFeaturesResponse, _failed, needs=Operation.ALTER)
async def update_features(
    ctx: RequestContext, request: messages.UpdateFeaturesRequest
) -> messages.UpdateFeaturesResponse:
    updates = [
        FeatureUpdate(
            update.feature, update.max_version_level, update.upgrade_type if ctx.version >= VERSION_TYPES else UPGRADE
        )
        for update in request.feature_updates
    ]
    await ctx.broker.controller.update_features(updates, request.validate_only)
    results = []
    if ctx.version < VERSION_ONE_RESULT:
        results = [
            messages.UpdateFeaturesResponse.UpdatableFeatureResult(feature=update.name, error_message="NONE")
            for update in updates
        ]
    return messages.UpdateFeaturesResponse(error_message=None, results=results)
