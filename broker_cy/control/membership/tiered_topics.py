"""Topics whose older records are in remote storage (KIP-405): a broker that cannot read these must not serve them."""

from __future__ import annotations

from broker_cy.config.topic import is_remote
from broker_cy.control.membership.registration_refused import RegistrationRefused
from broker_cy.metadata.image import RESOURCE_TOPIC, MetadataImage

# As many names are in the message.
NAMES_SHOWN_MAX = 3


def tiered(image: MetadataImage) -> list[str]:
    """The names of such topics, sorted."""
    return sorted(
        name
        for kind, name in image.configs.resources()
        if kind == RESOURCE_TOPIC and is_remote(image.configs.topic(name))
    )


def refuse(node_id: int, image: MetadataImage) -> None:
    """Raise RegistrationRefused if any topic is tiered. As its leader this broker would hide the records in remote
    storage; as a follower it could not begin at the start of its leader's local log.
    """
    if not (names := tiered(image)):
        return
    more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    raise RegistrationRefused(
        f"broker {node_id} cannot join the cluster: it has topics with records in remote storage "
        f"({', '.join(names[:NAMES_SHOWN_MAX])}{more}: remote.storage.enable=true), which broker-cy does not support "
        "yet: clients would lose sight of these records. Copy them to topics without remote storage and delete the old "
        "topics, or leave the cluster to Apache Kafka"
    )
