"""Features and their levels (KIP-584): those that this broker supports, and the record versions of metadata.version."""

from __future__ import annotations

from typing import Final

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"

# Levels of metadata.version at which the form of a record changed.
MV_MIN: Final = 7  # 3.3-IV3, the oldest that Kafka 4 starts with
MV_ZK_MIGRATION: Final = 8  # 3.4-IV0: RegisterBrokerRecord 2
MV_SCRAM: Final = 11  # 3.5-IV2: UserScramCredentialRecord (KIP-900)
MV_TRANSACTIONS: Final = 13  # 3.6-IV1: BeginTransactionRecord (KIP-868)
MV_DELEGATION_TOKENS: Final = 14  # 3.6-IV2: DelegationTokenRecord in KRaft
MV_CONTROLLER_REGISTRATION: Final = 15  # 3.7-IV0: RegisterControllerRecord (KIP-919)
MV_DIRECTORIES: Final = 17  # 3.7-IV2: directory ids (KIP-858)
MV_ELR: Final = 23  # 4.0-IV1: eligible leader replicas (KIP-966)
MV_CORDONED: Final = 30  # 4.3-IV0: cordoned log directories
MV_LATEST: Final = 30

# transaction.version: level 1 adds tagged fields to the coordinator's records, level 2 a new producer epoch for each
# transaction (KIP-890).
TV_LATEST: Final = 2

# The supported levels of this broker, lowest and highest. The group protocols are those of consumer (KIP-848), share
# (KIP-932) and streams groups (KIP-1071).
SUPPORTED: Final[dict[str, tuple[int, int]]] = {
    METADATA_VERSION: (MV_MIN, MV_LATEST),
    KRAFT_VERSION: (0, 1),
    ELIGIBLE_LEADER_REPLICAS: (0, 1),
    GROUP_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, TV_LATEST),
    SHARE_VERSION: (0, 1),
    STREAMS_VERSION: (0, 1),
}


def register_broker_version(metadata_version: int) -> int:
    """Version of RegisterBrokerRecord to write."""
    if metadata_version >= MV_CORDONED:
        return 4
    if metadata_version >= MV_DIRECTORIES:
        return 3
    return 2 if metadata_version >= MV_ZK_MIGRATION else 1


def partition_version(metadata_version: int) -> int:
    """Version of PartitionRecord and PartitionChangeRecord to write."""
    if metadata_version >= MV_ELR:
        return 2
    return 1 if metadata_version >= MV_DIRECTORIES else 0
