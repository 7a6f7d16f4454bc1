"""The levels of the broker's own loggers, by Kafka's names (KIP-412): described and changed as BROKER_LOGGER resources.

They are not stored: a restart resets them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from broker_cy.controller.config_ops import OpType, SettingChange
from broker_cy.core.errors import ErrorCode, KafkaError

ROOT = "root"
TRACE = 5

_LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def _logger(name: str) -> logging.Logger | None:
    if name == ROOT:
        return logging.getLogger()
    found = logging.root.manager.loggerDict.get(name)
    return found if isinstance(found, logging.Logger) else None


def levels() -> dict[str, str]:
    """The effective level of every logger."""
    names = [ROOT, *sorted(logging.root.manager.loggerDict)]
    return {name: _name_of(logger.getEffectiveLevel()) for name in names if (logger := _logger(name)) is not None}


def _name_of(level: int) -> str:
    """The coarsest of Kafka's levels that logs everything that this level does."""
    for name, at_least in _LEVELS.items():
        if level <= at_least:
            return name
    return "FATAL"


def validate(changes: Sequence[SettingChange]) -> None:
    """Raises KafkaError with Kafka's message."""
    for change in changes:
        if change.op in (OpType.APPEND, OpType.SUBTRACT):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{change.op.name} operation is not allowed for the BROKER_LOGGER resource",
            )
        if _logger(change.name) is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
        if change.op is OpType.DELETE:
            if change.name == ROOT:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
                )
        elif change.value not in _LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(_LEVELS))}",
            )


def apply(changes: Sequence[SettingChange]) -> None:
    """Apply changes that `validate` has accepted; DELETE resets a logger to the level of its parent."""
    for change in changes:
        logger = _logger(change.name)
        if logger is not None:
            logger.setLevel(logging.NOTSET if change.op is OpType.DELETE else _LEVELS[change.value or "INFO"])
