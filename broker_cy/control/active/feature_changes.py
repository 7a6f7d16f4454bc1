"""UpdateFeatures on the active controller: the log has the levels of all features but kraft.version, which the quorum
keeps.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from broker_cy.controller.feature_ops import FeatureUpdate, UpdateFeatures
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.quorum.step import UpgradeKRaftVersion

if TYPE_CHECKING:
    from broker_cy.control.quorum.quorum_driver import QuorumDriver
    from broker_cy.controller.operation import Operation

R = TypeVar("R")

# The answers of UpdateFeatures for the errors of the quorum.
_ERRORS: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_CONTROLLER,
    ErrorCode.UNSUPPORTED_VERSION: ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST: ErrorCode.INVALID_UPDATE_VERSION,
}


class Submitter(Protocol):
    def submit(self, operation: Operation[R]) -> asyncio.Future[R]: ...


async def update_features(
    controller: Submitter, driver: QuorumDriver, updates: list[FeatureUpdate], validate_only: bool
) -> None:
    """Set the levels. kraft.version is first, when everything else was checked: nothing is written if the quorum
    refuses it. Raises KafkaError.
    """
    quorum = driver.quorum

    def operation(*, is_check: bool) -> Any:
        return UpdateFeatures(updates, quorum.kraft_version, is_check, quorum.voters.ids)

    if any(update.name == features.KRAFT_VERSION for update in updates):
        level = await controller.submit(operation(is_check=True))
        if level is not None:
            reply = await driver.change_voters(UpgradeKRaftVersion(level, validate_only))
            if reply.error is not ErrorCode.NONE:
                message = f"Invalid update version {level} for feature {features.KRAFT_VERSION}. {reply.message}"
                raise KafkaError(_ERRORS.get(reply.error, reply.error), message)
    await controller.submit(operation(is_check=validate_only))
