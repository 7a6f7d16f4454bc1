"""The levels of metadata.version and of the other features in the releases of Apache Kafka, as Kafka 4.3.1 has them.

These are the tables of Kafka's tools; this broker supports a part of them, which is in `features`.
"""

from __future__ import annotations

from typing import Final

from broker_cy.metadata import features

# The names of the levels of metadata.version, that of features.MV_MIN first. The last one is not stable yet.
RELEASES: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0",
    "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0",
)  # fmt: skip
STABLE: Final = RELEASES[: features.MV_LATEST - features.MV_MIN + 1]

# The levels of metadata.version that changed the form of records: a downgrade beyond one of them loses metadata.
CHANGED: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})

# For each level of a feature, from 0 on, the first metadata.version whose new clusters have it. In Kafka's order.
DEFAULTS: Final[dict[str, tuple[int, ...]]] = {
    features.KRAFT_VERSION: (7, 21),
    features.TRANSACTION_VERSION: (7, 24, 24),
    features.GROUP_VERSION: (7, 22),
    features.ELIGIBLE_LEADER_REPLICAS: (7, 26),
    features.SHARE_VERSION: (7, 28),
    features.STREAMS_VERSION: (7, 29),
}
# The levels of other features that a level needs.
DEPENDENCIES: Final[dict[tuple[str, int], dict[str, int]]] = {
    (features.ELIGIBLE_LEADER_REPLICAS, 1): {features.METADATA_VERSION: features.MV_ELR},
}


def name_of(level: int) -> str | None:
    """The name of a level of metadata.version; None for an unknown level."""
    return RELEASES[level - features.MV_MIN] if 0 <= level - features.MV_MIN < len(RELEASES) else None


def level_of(release: str, known: tuple[str, ...] = STABLE) -> int:
    """The level of metadata.version of a release: `4.1`, `4.1.0` or `4.1-IV1`. Raises ValueError, with Kafka's
    message.
    """
    short = ".".join(release.split(".")[:2])
    matching = [at for at, name in enumerate(STABLE) if name.startswith(f"{short}-")]
    matching += [at for at, name in enumerate(known) if name == short]
    if not matching:
        raise ValueError(f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(known)}")
    return features.MV_MIN + matching[-1]


def default_level(name: str, metadata_version: int) -> int:
    """The level of a feature in a new cluster of Kafka with that metadata.version."""
    return max(level for level, since in enumerate(DEFAULTS[name]) if since <= metadata_version)


def of_new_cluster(metadata_version: int) -> dict[str, int]:
    """The levels above 0 of a new cluster, in the order of Kafka's records. The quorum keeps kraft.version."""
    names = sorted(set(DEFAULTS) - {features.KRAFT_VERSION})
    levels = {name: default_level(name, metadata_version) for name in names}
    return {features.METADATA_VERSION: metadata_version, **{name: level for name, level in levels.items() if level}}


def loses_metadata(current: int, level: int) -> bool:
    """Whether a downgrade of metadata.version loses fields of records of the levels between."""
    return any(level < each <= current for each in CHANGED)
