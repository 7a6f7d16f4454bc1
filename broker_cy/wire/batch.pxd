from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    BATCH_OVERHEAD_BYTES = 12       # base offset and length: what `length` does not count
    BATCH_HEADER_BYTES = 61         # up to and with the record count
    BATCH_CRC_START = 21            # the checksum covers from the attributes to the end

cdef enum:
    ATTRIBUTE_CODEC_MASK = 0x07
    ATTRIBUTE_LOG_APPEND_TIME = 0x08
    ATTRIBUTE_TRANSACTIONAL = 0x10
    ATTRIBUTE_CONTROL = 0x20
    ATTRIBUTE_DELETE_HORIZON = 0x40

# Header of a record batch, magic 2, in host byte order. `length` counts what follows it: the batch is length + 12 bytes.
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

# Reads the header at `p`, of which `n` bytes may be looked at. Returns 0, or -1 when n < 61, or `length` does not fit in n or is
# too small for a header. The magic and everything else is the caller's to judge: for magic 0 and 1 the fields after it mean
# nothing.
cdef int parse_header(const uint8_t* p, Py_ssize_t n, BatchHeader* out) noexcept nogil
