"""Client quotas in the metadata: how an entity is written, and the names of their keys (Kafka's QuotaConfig)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

# The first element of the keys of quotas in `MetadataImage.kept`: (QUOTA, entity, key).
QUOTA: Final = "quota"

# Types of the parts of an entity.
USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

# (type, name) by type; the name None is the default, for all names without a quota of their own.
Entity = tuple[tuple[str, str | None], ...]


def entity_of(names: Mapping[str, str | None]) -> Entity:
    return tuple(sorted(names.items(), key=lambda part: part[0]))


def entity_of_parts(parts: Iterable[Any]) -> Entity:
    """The entity of a record or a message; of a type that occurs twice, the last part counts, as in Kafka."""
    return entity_of({part.entity_type: part.entity_name for part in parts})
