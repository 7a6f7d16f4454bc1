from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from broker_cy.wire.walk cimport WalkResult

cdef enum:
    BATCH_OVERHEAD_BYTES = 12       # base offset and `length`, which `length` does not count
    BATCH_HEADER_BYTES = 61         # up to and including the record count
    BATCH_MAGIC_AT = 16
    BATCH_CRC_START = 21            # the checksum covers the bytes from the attributes to the end
    BATCH_ATTRIBUTES_AT = 22        # the low byte of the attributes, which has all of them

cdef enum:
    ATTRIBUTE_CODEC_MASK = 0x07
    ATTRIBUTE_LOG_APPEND_TIME = 0x08
    ATTRIBUTE_TRANSACTIONAL = 0x10
    ATTRIBUTE_CONTROL = 0x20
    ATTRIBUTE_DELETE_HORIZON = 0x40     # base_timestamp is when tombstones and markers may be dropped (KIP-534)

cdef enum:
    TIMESTAMP_CREATE_TIME = 0
    TIMESTAMP_LOG_APPEND_TIME = 1

cdef enum:
    CODEC_AS_PRODUCED = -1          # ValidationRules.target_codec for compression.type=producer

# Header of a record batch, magic 2, in host byte order. `length` counts the bytes after it: the batch has length + 12 bytes.
cdef struct BatchHeader:
    int64_t base_offset
    int32_t length
    int32_t leader_epoch
    int8_t magic
    uint32_t crc
    int16_t attributes
    int32_t last_offset_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int16_t producer_epoch
    int32_t base_sequence
    int32_t count


cdef inline int64_t batch_bytes(const BatchHeader* h) noexcept nogil:
    """The size of the whole batch. It is an int64 because `length` may be the largest int32."""
    return <int64_t>h.length + BATCH_OVERHEAD_BYTES


# The rules for a produced batch: the settings of its topic, and the version of the request.
cdef struct ValidationRules:
    int8_t timestamp_type           # message.timestamp.type
    int64_t before_max_ms           # message.timestamp.before.max.ms
    int64_t after_max_ms            # message.timestamp.after.max.ms
    int32_t max_message_bytes       # max.message.bytes
    bint compacted                  # cleanup.policy has compact
    int8_t target_codec             # compression.type: CODEC_AS_PRODUCED, or 0-4
    int16_t produce_version         # of the request; zstd is refused before 7

# The reason why a batch was refused; wire/rejection.py has its message.
cdef enum BatchFault:
    BATCH_OK = 0
    BATCH_MISSING = 1               # no whole batch in the field
    BATCH_LENGTH_TOO_SMALL = 2
    BATCH_BAD_MAGIC = 3
    BATCH_OLD_MAGIC = 4
    BATCH_ZSTD_TOO_EARLY = 5
    BATCH_SECOND = 6                # another batch follows
    BATCH_BASE_OFFSET = 7
    BATCH_TOO_LARGE = 8
    BATCH_NO_HEADER = 9             # shorter than a header
    BATCH_CRC = 10
    BATCH_CODEC = 11
    BATCH_OFFSET_RANGE = 12
    BATCH_COUNT = 13
    BATCH_COUNT_MISMATCH = 14
    BATCH_CONTROL = 15
    BATCH_SEQUENCE = 16
    BATCH_PAYLOAD = 17              # does not decompress
    BATCH_PAYLOAD_TOO_LARGE = 18    # decompresses to more bytes than allowed
    BATCH_RECORD_BOUNDS = 19        # a record is malformed: see BatchVerdict.walk
    BATCH_OFFSET_DELTAS = 20        # compressed, and the offset deltas are not 0, 1, 2, ...
    BATCH_RECORDS = 21              # records that are well-formed but not allowed: see rejection()
    BATCH_UNFINISHED = 22           # decompresses to more than Inflation.bytes_max: no verdict yet

cdef struct BatchVerdict:
    int16_t error                   # Kafka's code; 0: accepted
    int16_t fault                   # a BatchFault
    int32_t size                    # bytes of the batch; the rest of the field, less than a batch, is ignored
    int64_t detail                  # the invalid value, if it is one number
    int64_t max_timestamp           # of the batch as stored; now_ms for LogAppendTime
    bint rebuild                    # must be stored in another form: the target codec differs, or the offset deltas have gaps
    WalkResult walk

# The limit of one validation's decompression, and its result.
cdef class Inflation:
    cdef int64_t bytes_max              # a batch that decompresses to more gets BATCH_UNFINISHED
    cdef bint in_worker                 # walk the records without the interpreter lock
    cdef object plain                   # the decompressed records; None if they are not compressed
    cdef int64_t plain_bytes

# Reads the header at `p`, which has `n` readable bytes. Returns 0, or -1 if n < 61, or if `length` does not fit in n or is too
# small for a header. The caller checks the magic and everything else: for magic 0 and 1 the fields after it have no meaning.
cdef int parse_header(const uint8_t* p, Py_ssize_t n, BatchHeader* out) noexcept nogil

# Validates the n bytes of one partition's `records` field as a Kafka 4.3 leader does. Returns 0 and fills `h` if the batch is
# accepted, 1 if it is refused (verdict.error and .fault are the reason; rejection() describes it). An accepted batch whose max
# timestamp differs from that of its records (or whose topic has LogAppendTime) is corrected in place, with a new checksum, in `p`
# and in `h`. An uncompressed batch is validated without creating a Python object; a compressed one is decompressed into one
# buffer (at most compression.decompressed_limit bytes). If `inflation` is not None, its bound applies as well, and it keeps that
# buffer. Raises MemoryError only.
cdef int validate_batch(
    uint8_t* p, Py_ssize_t n, BatchHeader* h, const ValidationRules* rules, int64_t now_ms, BatchVerdict* verdict, Inflation inflation
) except -1

# The Rejection (wire/rejection.py) of a batch that validate_batch has just refused with the same arguments.
cdef object rejection(
    const uint8_t* p, Py_ssize_t n, const ValidationRules* rules, int64_t now_ms, const BatchVerdict* verdict, object topic_partition
)

# Sets the base offset and leader epoch, which the checksum does not cover. `p` has at least 61 bytes.
cdef void stamp_offset_epoch(uint8_t* p, int64_t base_offset, int32_t leader_epoch) noexcept nogil

# Sets timestamp type and max timestamp, in `p` (size bytes) and `h`, and recomputes the checksum if anything changed.
cdef void stamp_timestamp(uint8_t* p, Py_ssize_t size, BatchHeader* h, int8_t timestamp_type, int64_t max_timestamp) noexcept nogil
