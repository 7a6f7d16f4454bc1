"""The filters of a flow by names and Java's regular expressions: DefaultTopicFilter, DefaultGroupFilter and
DefaultConfigPropertyFilter of Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from broker_cy.core.config_def.types import ConfigError
from broker_cy.security.java_pattern import NotTranslatable, compiled


class NameFilter(NamedTuple):
    """Takes the names that `included` matches as a whole and `excluded` does not; None matches no name."""

    included: re.Pattern[str] | None
    excluded: re.Pattern[str] | None

    def takes(self, name: str) -> bool:
        return _matches(self.included, name) and not _matches(self.excluded, name)


class PropertyFilter(NamedTuple):
    """Takes the settings of topics that `excluded` does not match. With `uses_source_defaults`, defaults of the source
    become settings of the remote topic; otherwise the defaults of the target apply.
    """

    excluded: re.Pattern[str] | None
    uses_source_defaults: bool

    def takes(self, setting: str) -> bool:
        return not _matches(self.excluded, setting)


def pattern_of(setting: str, patterns: Sequence[str]) -> re.Pattern[str] | None:
    """Return one pattern for a list of names and regular expressions; None for an empty list, which matches nothing.

    The list is one alternation, as in Kafka: a flag such as `(?i)` also applies to the patterns after it. Raises
    ConfigError, which names the setting.
    """
    if not patterns:
        return None
    try:
        return compiled("|".join(patterns))
    except NotTranslatable as error:
        raise ConfigError(f"{setting}={','.join(patterns)}: {error}", setting) from None


def _matches(pattern: re.Pattern[str] | None, name: str) -> bool:
    return pattern is not None and pattern.fullmatch(name) is not None
