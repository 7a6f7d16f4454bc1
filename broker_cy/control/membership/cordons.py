"""The directories of this broker that take no new replicas (cordoned.log.dirs, KIP-1066)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

from broker_cy.config.checks import EVERY_DIR

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig

CORDONED: Final = "cordoned.log.dirs"


def is_cordoned(config: BrokerConfig, path: str) -> bool:
    """Whether the setting names this data directory, or all of them."""
    named = config[CORDONED]
    return EVERY_DIR in named or os.path.abspath(path) in map(os.path.abspath, named)


def cordoned_ids(config: BrokerConfig, directories: Mapping[UUID, str]) -> tuple[UUID, ...]:
    """The ids of the cordoned ones among these; `directories` are their paths."""
    return tuple(each for each, path in directories.items() if is_cordoned(config, path))
