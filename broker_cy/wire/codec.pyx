"""Decoding and encoding of all messages and records of Kafka, driven by the tables in broker_cy/schemas.

`encode(message, version)` and `decode(cls, version, buffer)` are the usual entry points. Malformed messages and bytes raise
WireError with the path of the field (`FetchRequest.topics[2].partitions`).
"""

from libc.stdint cimport int16_t

from broker_cy.core.cursor cimport ELEMENTS_MAX, Cursor
from broker_cy.core.writer cimport Writer
from broker_cy.wire.decoder cimport read_struct
from broker_cy.wire.encoder cimport write_struct
from broker_cy.wire.layout cimport Layout, layout_of

from broker_cy.core.errors import WireError
from broker_cy.wire.decoder import Part, struct_parts
from broker_cy.wire.encoder import EncodedElements
from broker_cy.wire.layout import Message, make_class, structures

__all__ = [
    "EncodedElements", "Message", "decode", "decode_parts", "decode_prefix", "decode_request", "decode_versioned", "encode", "encode_into", "encode_versioned", "make_class",
    "structures",
]


cdef object decode_at(type cls, int version, Cursor cursor):
    """Read one message at the cursor, and move the cursor past it; more bytes may follow."""
    cdef Layout layout = layout_of(cls)
    try:
        return read_struct(layout.node(version), cursor)
    except WireError as error:
        raise rooted(error, layout)


cdef int encode_at(Writer writer, object message, int version) except -1:
    """Append `message`; on an error the writer is unchanged."""
    cdef Layout layout = layout_of(type(message))
    cdef Py_ssize_t start = writer.pos
    try:
        write_struct(layout.node(version), writer, message)
    except BaseException as error:
        writer.pos = start
        if isinstance(error, WireError):
            raise rooted(error, layout)
        raise
    return 0


cdef object rooted(object error, Layout layout):
    if error.field != layout.name:
        error.field = f"{layout.name}.{error.field}" if error.field else layout.name
    return error


def encode(message, int version):
    """The bytes of `message` in `version`.

    Raises WireError, which names the field, if the version does not exist, a value does not fit its type, a value is None where
    null is not allowed, or a field that the version does not have is set and not ignorable.
    """
    cdef Writer writer = Writer.__new__(Writer)
    encode_at(writer, message, version)
    return writer.take_value()


def encode_into(Writer writer not None, message, int version):
    """Append the bytes of `message` to `writer`, which is unchanged if this raises (see `encode`)."""
    encode_at(writer, message, version)


def decode(type cls, int version, buffer):
    """The message of class `cls` in `buffer`, which contains nothing else. Raises WireError, which names the field."""
    cdef Cursor cursor = Cursor.__new__(Cursor, buffer)
    message = decode_at(cls, version, cursor)
    if cursor.remaining() > 0:
        raise WireError(f"{cursor.remaining()} bytes are left over", cls.__name__)
    return message


def decode_parts(type cls, int version, buffer, elements=ELEMENTS_MAX):
    """A generator that decodes as `decode` does, in parts of less than a millisecond, and returns the message: so that a
    caller with an event loop can let others run between them. The arrays of the message may have `elements` elements.
    """
    cdef Layout layout = layout_of(cls)
    cdef Cursor cursor = Cursor.__new__(Cursor, buffer)
    cursor.elements_max = cursor.elements_left = elements
    try:
        message = yield from struct_parts(layout.node(version), cursor, Part())
    except WireError as error:
        raise rooted(error, layout)
    if cursor.remaining() > 0:
        raise WireError(f"{cursor.remaining()} bytes are left over", cls.__name__)
    return message


def decode_prefix(type cls, int version, buffer):
    """Like `decode`, but more bytes may follow. Returns the message and its size in bytes."""
    cdef Cursor cursor = Cursor.__new__(Cursor, buffer)
    message = decode_at(cls, version, cursor)
    return message, cursor.position()


def decode_request(type cls, int version, buffer, elements=ELEMENTS_MAX):
    """The message as a broker reads it: bytes after it are ignored, and invalid UTF-8 is decoded as Kafka does. It may have
    `elements` elements in its arrays and tagged fields.
    """
    cdef Cursor cursor = Cursor.__new__(Cursor, buffer)
    cursor.elements_max = cursor.elements_left = elements
    cursor.lenient_text = True
    return decode_at(cls, version, cursor)


def encode_versioned(message, int version):
    """`encode` with the version before it, as an int16: for values of internal topics and embedded consumer protocol data.

    Keys of internal topics have the record type (`API_KEY`) there instead of the version.
    """
    cdef Writer writer = Writer.__new__(Writer)
    if 0 <= version <= 0x7FFF:
        writer.i16(<int16_t>version)
    encode_at(writer, message, version)
    return writer.take_value()


def decode_versioned(type cls, buffer):
    """Decode the bytes of `encode_versioned`: the message and its version."""
    cdef Cursor cursor = Cursor.__new__(Cursor, buffer)
    try:
        version = cursor.i16()
    except WireError as error:
        error.field = f"{cls.__name__}.version"
        raise
    message = decode_at(cls, version, cursor)
    if cursor.remaining() > 0:
        raise WireError(f"{cursor.remaining()} bytes are left over", cls.__name__)
    return message, version
