from typing_extensions import Buffer

from broker_cy.wire.rejection import Accepted, Rejection

def validate(
    data: Buffer,
    *,
    now_ms: int,
    topic_partition: str = "topic-0",
    timestamp_type: int = 0,
    before_max_ms: int = 0x7FFFFFFFFFFFFFFF,
    after_max_ms: int = 3_600_000,
    max_message_bytes: int = 1_048_588,
    compacted: bool = False,
    target_codec: int = -1,
    produce_version: int = 13,
) -> Accepted | Rejection:
    """validate_batch for Python. `data` is a writable buffer, which is corrected in place if the batch is accepted."""

def stamp(data: Buffer, base_offset: int, leader_epoch: int) -> None:
    """Set the base offset and the leader epoch of the batch in the writable buffer `data`. Raises ValueError if it is too
    short for a header.
    """
