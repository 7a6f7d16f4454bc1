"""Records of the metadata log: their frame (KIP-631), and the batches that contain them.

A record's value is `frame version (uvarint, 1), api key (uvarint), record version (uvarint), body`; the key is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from broker_cy.core.cursor import Cursor
from broker_cy.core.errors import WireError
from broker_cy.metadata.records import MetadataLogError, VersionedRecord
from broker_cy.wire import codec, messages
from broker_cy.wire.control import ControlMessage, decode_control, encode_control
from broker_cy.wire.records import Batch, Record, decode_batches, encode_batch

FRAME_VERSION: Final = 1
# Versions are int16 everywhere except in the frame.
VERSION_MAX: Final = 0x7FFF

# Class name by api key: every record type of Kafka 4.3.
RECORD_TYPES: Final[dict[int, str]] = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
}
_API_KEYS: Final = {name: key for key, name in RECORD_TYPES.items()}


def frame(record: VersionedRecord) -> bytes:
    """The value of the record as stored in the log."""
    key = _API_KEYS[type(record.message).__name__]
    # Each of the three fits in one uvarint byte: the highest key is 28, the highest version 4.
    return bytes((FRAME_VERSION, key, record.version)) + codec.encode(record.message, record.version)


def unframe(value: bytes) -> VersionedRecord:
    """The message in the value of a record. Raises MetadataLogError if it does not parse, or for an unknown frame,
    type or version.
    """
    cursor = Cursor(value)
    try:
        frame_version = cursor.read_uvarint()
        if frame_version != FRAME_VERSION:
            raise MetadataLogError(f"record frame version {frame_version} is not supported; only {FRAME_VERSION} is")
        api_key = cursor.read_uvarint()
        version = cursor.read_uvarint()
        if version > VERSION_MAX:
            raise MetadataLogError(f"record version {version} is too large; at most {VERSION_MAX} is allowed")
        cls = _CLASSES.get(api_key)
        if cls is None:
            cls = _class_of(api_key)
        return VersionedRecord(codec.decode(cls, version, memoryview(value)[cursor.at :]), version)
    except WireError as error:
        raise MetadataLogError(str(error)) from error


_CLASSES: dict[int, Any] = {}


def _class_of(api_key: int) -> Any:
    name = RECORD_TYPES.get(api_key)
    if name is None:
        raise MetadataLogError(f"record type {api_key} is not a metadata record of Kafka 4.3")
    cls = _CLASSES[api_key] = getattr(messages, name)
    return cls


def data_batch(records: list[VersionedRecord], base_offset: int, epoch: int, now_ms: int) -> bytes:
    """One record batch with `records`, at the offsets from `base_offset` on."""
    values = [Record(timestamp=now_ms, value=frame(record)) for record in records]
    return encode_batch(values, base_offset=base_offset, leader_epoch=epoch)


def control_batch(control_messages: list[ControlMessage], base_offset: int, epoch: int, now_ms: int) -> bytes:
    """One control batch with records of the quorum."""
    values = [encode_control(message, now_ms) for message in control_messages]
    return encode_batch(values, base_offset=base_offset, leader_epoch=epoch, control=True)


def batches(content: bytes) -> Iterator[Batch]:
    """The batches in `content`. Raises MetadataLogError unless it consists of whole batches with correct checksums."""
    end = 0
    try:
        for batch in decode_batches(content):
            if not batch.is_valid():
                raise MetadataLogError(f"batch at byte {end}, offset {batch.base_offset}: the checksum is wrong")
            end = batch.position + batch.size_bytes
            yield batch
    except WireError as error:
        raise MetadataLogError(str(error)) from error
    if end != len(content):
        raise MetadataLogError(f"batch at byte {end} is incomplete: {len(content) - end} bytes are left")


def records_in(batch: Batch) -> list[tuple[int, VersionedRecord]]:
    """(offset, record) of a data batch. Raises MetadataLogError, which names the offset."""
    try:
        records = batch.records()
    except WireError as error:
        raise MetadataLogError(
            f"cannot read the records of the batch at offset {batch.base_offset}: {error}"
        ) from error
    found = []
    for record in records:
        try:
            found.append((record.offset, unframe(record.value or b"")))
        except MetadataLogError as error:
            raise MetadataLogError(f"record at offset {record.offset}: {error}") from error
    return found


def control_messages_in(batch: Batch) -> list[ControlMessage]:
    """The messages of a control batch, except those of unknown types. Raises MetadataLogError."""
    try:
        found = [decode_control(record) for record in batch.records()]
    except WireError as error:
        raise MetadataLogError(f"cannot read the control batch at offset {batch.base_offset}: {error}") from error
    return [message for message in found if message is not None]
