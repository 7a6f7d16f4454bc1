"""The settings of topics that mirror topics of other clusters (docs/mirror.md, Link flows)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from broker_cy.core import uuid as uuids
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError, invalid

LINK: Final = "brokercy.mirror.link"
SOURCE_TOPIC: Final = "brokercy.mirror.source.topic"
SOURCE_TOPIC_ID: Final = "brokercy.mirror.source.topic.id"
PAUSED: Final = "brokercy.mirror.paused"
NAMES: Final = (LINK, SOURCE_TOPIC, SOURCE_TOPIC_ID, PAUSED)

# The name of a file, without its ending.
_LINK_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class MirrorSettings(NamedTuple):
    """`topic_id` is None until it is known."""

    link: str
    topic: str
    topic_id: UUID | None
    is_paused: bool


def is_mirror(overrides: Mapping[str, str]) -> bool:
    """Whether a topic with these settings is a mirror."""
    return bool(overrides.get(LINK))


def mirror_settings(topic: str, overrides: Mapping[str, str]) -> MirrorSettings | None:
    """The settings of a mirror; None for other topics."""
    link = overrides.get(LINK, "").strip()
    if not link:
        return None
    return MirrorSettings(
        link,
        overrides.get(SOURCE_TOPIC, "").strip() or topic,
        source_topic_id(overrides),
        overrides.get(PAUSED, "false").strip().lower() == "true",
    )


def source_topic_id(overrides: Mapping[str, str]) -> UUID | None:
    """The id of the source topic of a mirror, or of a topic that was promoted; None without one."""
    try:
        return uuids.from_text(overrides.get(SOURCE_TOPIC_ID, "").strip())
    except ValueError:
        return None


def check(overrides: Mapping[str, str]) -> None:
    """Raises ConfigError for a link that cannot name a file, and for an id that is none."""
    link = overrides.get(LINK, "").strip()
    if link and _LINK_NAME.fullmatch(link) is None:
        raise invalid(LINK, link, "a link has up to 100 letters, digits, dots, dashes and underscores")
    topic_id = overrides.get(SOURCE_TOPIC_ID, "").strip()
    if topic_id:
        try:
            uuids.from_text(topic_id)
        except ValueError as error:
            raise ConfigError(f"Invalid value {topic_id} for configuration {SOURCE_TOPIC_ID}: {error}") from None
