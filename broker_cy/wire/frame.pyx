"""Headers of requests and responses, and the messages of each API.

A request header is api key int16, api version int16, correlation id int32, client id (an int16 length and UTF-8, -1 for null, in
every header version: KIP-482 did not change it) and, in header version 2, tagged fields. The tables of an API are read when the API
is first used.
"""

from libc.stdint cimport int64_t

from broker_cy.core.errors import Truncated, WireError
from broker_cy.schemas import tables
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey

__all__ = [
    "ApiKey", "api_versions", "parse_request_header", "request_class", "request_header_version", "response_class",
    "response_header_version",
]

cdef enum:
    API_COUNT = 93
    UNREAD = -1
    API_VERSIONS = 18

# First flexible version of each API, UNREAD until it is needed.
cdef int[API_COUNT] flexible_from
cdef int key
for key in range(API_COUNT):
    flexible_from[key] = UNREAD

cdef list api_names = [None] * API_COUNT
# Lowest and highest version of each API, None until it is needed: each request of a client asks for them.
cdef list known_versions = [None] * API_COUNT


cdef str name_of(int api_key):
    """The name of an API: `Fetch` for 1. Raises WireError for an unknown number."""
    if not 0 <= api_key < API_COUNT:
        raise WireError(f"api key {api_key} does not exist; 0 to {API_COUNT - 1} exist", "api_key")
    if api_names[api_key] is None:
        for name in tables.message_files():
            if name.endswith("Request"):
                spec = tables.load_api_header(name)
                api_names[spec.key] = name[:-len("Request")]
    return api_names[api_key]


cdef int read_flexible(int api_key) except -1:
    versions = tables.load_api_header(name_of(api_key) + "Request").flexible
    flexible_from[api_key] = versions.low if versions.high >= versions.low else tables.VERSION_MAX + 1
    return 0


cpdef int request_header_version(int api_key, int version) except -1:
    """1, or 2 from the API's first flexible version on. As in Kafka, also for versions that do not exist, so that an ApiVersions
    request of a future version can be answered. Raises WireError for an unknown API.
    """
    if not 0 <= api_key < API_COUNT or flexible_from[api_key] == UNREAD:
        read_flexible(api_key)
    return 2 if version >= flexible_from[api_key] else 1


cpdef int response_header_version(int api_key, int version) except -1:
    """0, or 1 from the first flexible version on; always 0 for ApiVersions (KIP-511). Raises WireError for an unknown API."""
    return 0 if api_key == API_VERSIONS else request_header_version(api_key, version) - 1


cdef int read_request_header(Cursor cursor, RequestHeader* header) except -1:
    """Read a header and leave the cursor at the body. Raises WireError if it is malformed or the API is unknown."""
    cdef int64_t count, size
    header.api_key = cursor.i16()
    header.api_version = cursor.i16()
    header.correlation_id = cursor.i32()
    cdef int version = request_header_version(header.api_key, header.api_version)
    header.client_id = NULL
    header.client_id_size = cursor.i16()
    if header.client_id_size >= 0:
        header.client_id = cursor.take(header.client_id_size)
    elif header.client_id_size != -1:
        raise WireError(f"the length is {header.client_id_size}; -1 (null) or more is allowed", "RequestHeader.client_id")
    if version == 2:
        count = cursor.uvarint()
        if count > cursor.remaining() // 2:
            raise Truncated(f"{count} tagged fields do not fit in the remaining {cursor.remaining()} bytes", "RequestHeader")
        while count > 0:
            # The header has no known tagged field, and those of newer clients do not concern an older broker.
            cursor.uvarint()
            size = cursor.uvarint()
            cursor.take(size)
            count -= 1
    return 0


def parse_request_header(frame):
    """Api key, version, correlation id, client id (None for null) and the offset of the body in `frame`."""
    cdef Cursor cursor = Cursor.__new__(Cursor, frame)
    cdef RequestHeader header
    read_request_header(cursor, &header)
    client_id = None
    if header.client_id != NULL:
        try:
            client_id = header.client_id[:header.client_id_size].decode("utf-8")
        except UnicodeDecodeError as error:
            raise WireError(f"invalid UTF-8: {error.reason} at byte {error.start} of {header.client_id_size}", "RequestHeader.client_id") from None
    return header.api_key, header.api_version, header.correlation_id, client_id, cursor.position()


def api_versions(api_key):
    """The lowest and highest version in Kafka 4.3; (0, -1) for an API that was removed. The highest version of InitProducerId is
    unstable and not advertised by default. Raises WireError for an unknown API.
    """
    cdef str name = name_of(api_key)
    if known_versions[api_key] is None:
        versions = tables.load_api_header(name + "Request").versions
        known_versions[api_key] = versions.low, versions.high
    return known_versions[api_key]


def request_class(int api_key):
    """The class of an API's request. Raises WireError for an unknown API."""
    return getattr(messages, name_of(api_key) + "Request")


def response_class(int api_key):
    """The class of an API's response. Raises WireError for an unknown API."""
    return getattr(messages, name_of(api_key) + "Response")
