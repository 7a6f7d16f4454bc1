"""Why a broker is not registered, as a text with the remedy."""

from __future__ import annotations

from typing import Final

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.metadata.image import MetadataImage

NO_CONTROLLER: Final = "no active controller was found"
_MAJORITY: Final = "a majority of the controllers must be running and reachable"


def wait_reason(found: str, unreached: str) -> str:
    """The reason of a broker's wait. `found` is what hinders it, if that is known; `unreached` are the addresses of
    controllers that cannot be reached, with the reasons.
    """
    reason = found or NO_CONTROLLER
    if not unreached:
        return f"{reason}: {_MAJORITY}" if reason == NO_CONTROLLER else reason
    return (
        f"{reason}. No controller answers at {unreached}. If none is to listen there, correct "
        f"controller.quorum.bootstrap.servers or controller.quorum.voters; else {_MAJORITY}"
    )


def hindrance(node_id: int, error: KafkaError) -> str:
    """Why the broker is not registered yet, and the remedy if waiting does not help."""
    if error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
        return (
            f"{error.code.name}: another broker with node.id {node_id} is running, or was killed and its "
            "session (broker.session.timeout.ms) has not ended: give one of the two another node.id and directories "
            "of its own, or wait"
        )
    return NO_CONTROLLER if error.code is ErrorCode.REQUEST_TIMED_OUT else error.message


def refused(node_id: int, error: KafkaError, image: MetadataImage) -> str:
    """Why the cluster refuses the broker, and the remedy."""
    node = f"broker {node_id} cannot join the cluster: {error.code.name}: {error.message}"
    if error.code is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return (
            f"{node}. Its log.dirs belong to another cluster: use the directories of this cluster, or format new ones"
        )
    if error.code is ErrorCode.UNSUPPORTED_VERSION:
        return (
            f"{node}. {_unsupported(image)}Use a version that supports the features of the cluster, or downgrade them"
        )
    return node


def _unsupported(image: MetadataImage) -> str:
    """The finalized features that this version does not have; the response to a registration does not name them."""
    found = []
    for name, level in image.features.levels().items():
        low, high = features.SUPPORTED.get(name, (0, 0))
        if not low <= level <= high:
            found.append(f"{name} is {level} in the cluster, and this version supports {low} to {high}. ")
    return "".join(found)
