"""Access to the topics of a metadata image."""

from uuid import UUID

from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.topics import TopicImage


def topic_in(image: MetadataImage, key: str | UUID) -> TopicImage:
    """The topic of that name or id, which must exist."""
    found = image.topics.by_name(key) if isinstance(key, str) else image.topics.by_id(key)
    assert found is not None, f"there is no topic {key}"
    return found


def same_content(one: MetadataImage, other: MetadataImage) -> bool:
    """Whether both contain the same metadata, regardless of their offsets and epochs."""
    return all(dict(a) == dict(b) for a, b in zip(one._tables(), other._tables(), strict=True))
