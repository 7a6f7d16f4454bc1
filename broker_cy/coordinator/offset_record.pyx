"""Read and write the records of committed offsets: the one record type that is counted in hundreds of thousands.

Key: type i16 (0 or 1), group, topic, partition i32. Value: version i16, then by version

    0, 2   offset i64, metadata, commit timestamp i64
    1      ... and expire timestamp i64
    3      offset, leader epoch i32, metadata, commit timestamp
    4      as 3 with compact metadata and tagged fields; tag 0 is the topic id

Strings are i16 length and UTF-8. The codec over the same tables is the oracle in the tests.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

from uuid import UUID

from broker_cy.core.errors import WireError

from broker_cy.core.cursor cimport Cursor
from broker_cy.core.writer cimport Writer

cdef enum:
    VERSION_WITH_EXPIRY = 1
    VERSION_WITH_EPOCH = 3
    VERSION_FLEXIBLE = 4
    TAG_TOPIC_ID = 0
    KEY_OFFSET_COMMIT = 1
    STRING_BYTES_MAX = 0x7FFF

cdef uint8_t[16] NO_TOPIC_ID
memset(NO_TOPIC_ID, 0, 16)


cdef class CommittedOffset:
    def __eq__(self, other):
        cdef CommittedOffset that
        if not isinstance(other, CommittedOffset):
            return NotImplemented
        that = <CommittedOffset>other
        return (
            self.committed_offset == that.committed_offset
            and self.commit_timestamp_ms == that.commit_timestamp_ms
            and self.expire_timestamp_ms == that.expire_timestamp_ms
            and self.record_offset == that.record_offset
            and self.leader_epoch == that.leader_epoch
            and self.metadata == that.metadata
            and memcmp(self._topic_id, that._topic_id, 16) == 0
        )

    def __hash__(self):
        return hash((self.committed_offset, self.commit_timestamp_ms, self.record_offset, self.metadata))

    def __repr__(self):
        return (
            f"CommittedOffset({self.committed_offset}, leader_epoch={self.leader_epoch}, metadata={self.metadata!r}, "
            f"commit_timestamp_ms={self.commit_timestamp_ms}, expire_timestamp_ms={self.expire_timestamp_ms}, "
            f"topic_id={self.topic_id}, record_offset={self.record_offset})"
        )

    @property
    def topic_id(self):
        """The topic's id as a UUID; all zero if the commit did not have it."""
        return UUID(bytes=(<char*>self._topic_id)[:16])

    def is_of_topic(self, bytes topic_id not None):
        """Whether this may be an offset of the topic with that id (16 bytes). An offset without an id matches every
        topic.
        """
        cdef const char* other = PyBytes_AS_STRING(topic_id)
        if PyBytes_GET_SIZE(topic_id) != 16:
            raise ValueError("a topic id is 16 bytes")
        return (
            memcmp(self._topic_id, NO_TOPIC_ID, 16) == 0
            or memcmp(other, NO_TOPIC_ID, 16) == 0
            or memcmp(self._topic_id, other, 16) == 0
        )


cdef str _text(Cursor cursor, Py_ssize_t size):
    if size < 0:
        raise WireError(f"a string of {size} bytes")
    return PyUnicode_DecodeUTF8(<const char*>cursor.take(size), size, NULL)


cdef inline int _end(Cursor cursor) except -1:
    if cursor.remaining():
        raise WireError(f"{cursor.remaining()} bytes behind the last field")
    return 0


def decode_offset_key(bytes key not None):
    """(group, topic, partition) of a key of type 0 or 1. Raises WireError if it is malformed."""
    cdef Cursor cursor = Cursor.over(<const uint8_t*>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), key)
    cdef int16_t kind = cursor.i16()
    cdef int32_t partition
    if kind < 0 or kind > KEY_OFFSET_COMMIT:
        raise WireError(f"key type {kind} is no committed offset")
    group = _text(cursor, cursor.i16())
    topic = _text(cursor, cursor.i16())
    partition = cursor.i32()
    _end(cursor)
    return group, topic, partition


def decode_offset_value(bytes value not None, int64_t record_offset=-1):
    """The CommittedOffset in a record's value. Raises WireError if it is malformed or of a version after 4."""
    cdef Cursor cursor = Cursor.over(<const uint8_t*>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), value)
    cdef CommittedOffset out = CommittedOffset.__new__(CommittedOffset)
    cdef int16_t version = cursor.i16()
    if version < 0 or version > VERSION_FLEXIBLE:
        raise WireError(f"committed offset of version {version}, 0 to {VERSION_FLEXIBLE} are known")
    out.record_offset = record_offset
    out.leader_epoch = -1
    out.expire_timestamp_ms = -1
    out.committed_offset = cursor.i64()
    if version >= VERSION_WITH_EPOCH:
        out.leader_epoch = cursor.i32()
    if version >= VERSION_FLEXIBLE:
        out.metadata = _text(cursor, cursor.uvarint() - 1)
    else:
        out.metadata = _text(cursor, cursor.i16())
    out.commit_timestamp_ms = cursor.i64()
    if version == VERSION_WITH_EXPIRY:
        out.expire_timestamp_ms = cursor.i64()
    if version >= VERSION_FLEXIBLE:
        _read_tags(cursor, out)
    _end(cursor)
    return out


cdef int _read_tags(Cursor cursor, CommittedOffset out) except -1:
    cdef int64_t count = cursor.uvarint()
    cdef int64_t tag, size
    while count > 0:
        count -= 1
        tag = cursor.uvarint()
        size = cursor.uvarint()
        if tag == TAG_TOPIC_ID:
            if size != 16:
                raise WireError(f"a topic id of {size} bytes")
            memcpy(out._topic_id, cursor.take(16), 16)
        else:
            cursor.take(size)
    return 0


cdef int _put_text(Writer writer, str text) except -1:
    cdef bytes raw = text.encode("utf-8")
    cdef Py_ssize_t size = PyBytes_GET_SIZE(raw)
    if size > STRING_BYTES_MAX:
        raise WireError(f"a string of {size} bytes, at most {STRING_BYTES_MAX} fit")
    writer.i16(<int16_t>size)
    writer.raw(PyBytes_AS_STRING(raw), size)
    return 0


def encode_offset_key(str group not None, str topic not None, int32_t partition):
    """The key of the record that holds the committed offset of one partition in a group."""
    cdef Writer writer = Writer(64)
    writer.i16(KEY_OFFSET_COMMIT)
    _put_text(writer, group)
    _put_text(writer, topic)
    writer.i32(partition)
    return writer.take_value()


def encode_offset_value(int64_t committed_offset, int32_t leader_epoch, str metadata not None, int64_t commit_timestamp_ms,
                        int64_t expire_timestamp_ms, bytes topic_id not None):
    """The value as Kafka 4.3 writes it: version 1 if the commit has its own expiry (not -1), else 4. `topic_id` is
    16 bytes.
    """
    cdef Writer writer = Writer(64)
    cdef bytes raw
    if expire_timestamp_ms != -1:
        writer.i16(VERSION_WITH_EXPIRY)
        writer.i64(committed_offset)
        _put_text(writer, metadata)
        writer.i64(commit_timestamp_ms)
        writer.i64(expire_timestamp_ms)
        return writer.take_value()
    raw = metadata.encode("utf-8")
    if PyBytes_GET_SIZE(raw) > STRING_BYTES_MAX:
        raise WireError(f"a string of {PyBytes_GET_SIZE(raw)} bytes, at most {STRING_BYTES_MAX} fit")
    if PyBytes_GET_SIZE(topic_id) != 16:
        raise ValueError("a topic id is 16 bytes")
    writer.i16(VERSION_FLEXIBLE)
    writer.i64(committed_offset)
    writer.i32(leader_epoch)
    writer.uvarint(<unsigned int>PyBytes_GET_SIZE(raw) + 1)
    writer.raw(PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))
    writer.i64(commit_timestamp_ms)
    if memcmp(PyBytes_AS_STRING(topic_id), NO_TOPIC_ID, 16) == 0:
        writer.uvarint(0)
    else:
        writer.uvarint(1)
        writer.uvarint(TAG_TOPIC_ID)
        writer.uvarint(16)
        writer.raw(PyBytes_AS_STRING(topic_id), 16)
    return writer.take_value()
