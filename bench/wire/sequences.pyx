"""Precomputation for stamping batches with sequences in the load driver: see sequences.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from bench.wire.system cimport bench_crc32c_zeros


def shift_of(Py_ssize_t size):
    """Return the matrix that shifts a CRC-32C by `size` bytes: 32 words in this host's byte order."""
    cdef bytes made = PyBytes_FromStringAndSize(NULL, SHIFT_WORDS * sizeof(uint32_t))
    cdef uint32_t* words = <uint32_t*> PyBytes_AS_STRING(made)
    cdef int i
    if size < 0:
        raise ValueError(f"{size} bytes")
    for i in range(SHIFT_WORDS):
        words[i] = bench_crc32c_zeros(<uint32_t> 1 << i, size)
    return made


def stamped(bytes batch not None, int64_t producer_id, int16_t epoch, int32_t sequence):
    """Return `batch` in the form that the driver sends. Raises ValueError if it is shorter than a header."""
    cdef uint8_t header[BATCH_HEADER]
    cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(batch)
    cdef Py_ssize_t rest = PyBytes_GET_SIZE(batch) - BATCH_HEADER
    cdef Producer producer
    if rest < 0:
        raise ValueError(f"a batch of {rest + BATCH_HEADER} bytes")
    shift = shift_of(rest)
    producer.id, producer.epoch = producer_id, epoch
    stamp_header(
        header, data, &producer, sequence, bench_crc32c(data + BATCH_HEADER, rest),
        <const uint32_t*> PyBytes_AS_STRING(shift),
    )
    return PyBytes_FromStringAndSize(<char*> header, BATCH_HEADER) + batch[BATCH_HEADER:]


def sequence_after(int32_t sequence, int32_t records):
    """Return the base sequence of the next batch."""
    return next_sequence(sequence, records)
