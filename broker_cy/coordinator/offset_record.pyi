from typing import final
from uuid import UUID

@final
class CommittedOffset:
    """One committed offset. `expire_timestamp_ms`, `leader_epoch` and `record_offset` are -1 if unknown."""

    committed_offset: int
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    record_offset: int
    leader_epoch: int
    metadata: str
    @property
    def topic_id(self) -> UUID: ...
    def is_of_topic(self, topic_id: bytes) -> bool: ...

def decode_offset_key(key: bytes) -> tuple[str, str, int]: ...
def decode_offset_value(value: bytes, record_offset: int = -1) -> CommittedOffset: ...
def encode_offset_key(group: str, topic: str, partition: int) -> bytes: ...
def encode_offset_value(
    committed_offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int,
    topic_id: bytes,
) -> bytes: ...
