"""The directories of this broker that take no new replicas (cordoned.log.dirs, KIP-1066)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from broker_cy.config.checks import EVERY_DIR

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig

CORDONED: Final = "cordoned.log.dirs"


def is_cordoned(config: BrokerConfig, path: str) -> bool:
    """Whether the setting names this directory of log.dirs, or all of them."""
    named = config[CORDONED]
    return EVERY_DIR in named or path in named


def cordoned_ids(config: BrokerConfig, directory_ids: Sequence[UUID]) -> tuple[UUID, ...]:
    """The ids of the cordoned ones; `directory_ids` are in the order of log.dirs."""
    paths = map(str, config.log_dirs)
    return tuple(each for path, each in zip(paths, directory_ids, strict=True) if is_cordoned(config, path))
