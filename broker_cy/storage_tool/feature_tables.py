"""`broker-cy storage version-mapping` and `feature-dependencies`: Kafka's tables of features, as its kafka-storage.sh
prints them. They describe the releases of Kafka, not this broker.
"""

from __future__ import annotations

import re

from broker_cy.metadata import features, releases

_SHORT = re.compile(r"[+-]?[0-9]+")


class NoSuchFeature(Exception):
    """The release, feature or level does not exist; the message is Kafka's."""


def print_levels(release: str) -> None:
    """Print the levels of all features in a new cluster of the release. Raises NoSuchFeature."""
    try:
        level = releases.level_of(release, releases.RELEASES)
    except ValueError as error:
        raise NoSuchFeature(str(error)) from None
    print(f"metadata.version={level} ({release})")
    for name in releases.DEFAULTS:
        print(f"{name}={releases.default_level(name, level)}")


def print_dependencies(text: str) -> None:
    """Print the levels of other features that a level, given as `name=level`, needs. Raises NoSuchFeature."""
    name, equals, number = (part.strip() for part in text.partition("="))
    if not equals:
        raise NoSuchFeature(
            f"Invalid feature format: {text}. Expected format: 'feature=version' (e.g. 'group.version=1')"
        )
    if _SHORT.fullmatch(number) is None or not -(2**15) <= int(number) < 2**15:
        raise NoSuchFeature(f"Invalid version format: {number} for feature {name}")
    level = int(number)
    if name == features.METADATA_VERSION:
        if (release := releases.name_of(level)) is None:
            raise NoSuchFeature(f"Unknown metadata.version {level}")
        print(f"{name}={level} ({release}) has no dependencies.")
        return
    if name not in releases.DEFAULTS:
        raise NoSuchFeature(f"Unknown feature: {name}")
    if not 0 <= level < len(releases.DEFAULTS[name]):
        raise NoSuchFeature(f"Feature level {level} is not supported for feature {name}")
    needed = releases.DEPENDENCIES.get((name, level), {})
    print(f"{name}={level} requires:" if needed else f"{name}={level} has no dependencies.")
    for other, at_least in needed.items():
        # So far only metadata.version is needed.
        print(f"    {other}={at_least} ({releases.name_of(at_least)})")
