"""The validation of produced batches whose cost is not bounded by their size: a compressed batch can decompress to any length, a
batch that is stored with another codec has to be compressed, and the schemas that records name are collected one by one. The event
loop does a bounded amount of this in each turn; a worker does the rest.
"""

from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int8_t, int64_t

from broker_cy.wire.batch cimport (
    ATTRIBUTE_LOG_APPEND_TIME, BATCH_HEADER_BYTES, BATCH_UNFINISHED, rejection, validate_batch,
)

from broker_cy.wire.compression import Codec
from broker_cy.wire.records import rebuild_batch, recoded_batch


cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    # Compression takes about this many times as long as decompression: each byte to compress counts as this many.
    COMPRESSION_WEIGHT = 8


cdef class BatchCheck(Inflation):
    cdef bint run(self, int64_t bytes_max, bint in_worker) except *:
        """Validate the batch, and build the batch to store if it is to be stored in another form.

        Returns False if this would cost more than the decompression of `bytes_max` bytes: nothing is decided then, and the caller
        runs it again, in a worker, with a bound that is never reached. Raises MemoryError.
        """
        self.bytes_max = bytes_max
        self.in_worker = in_worker
        self.plain_bytes = 0
        try:
            if validate_batch(self.data, self.size, &self.header, &self.rules, self.now_ms, &self.verdict, self):
                if self.verdict.fault == BATCH_UNFINISHED:
                    self.spent = bytes_max
                    return False
                topic, index = self.topic_partition
                self.refusal = rejection(self.data, self.size, &self.rules, self.now_ms, &self.verdict, f"{topic}-{index}")
            elif not self.finish(bytes_max):
                self.spent = bytes_max
                return False
            self.spent = self.plain_bytes
            return True
        finally:
            self.plain = None

    cdef bint finish(self, int64_t bytes_max) except *:
        """The work for an accepted batch; False if it would cost more."""
        if self.plain is None and (self.schemas is not None or self.verdict.rebuild):
            self.plain_bytes = self.verdict.size
        if self.verdict.rebuild:
            self.plain_bytes *= COMPRESSION_WEIGHT
        if self.plain_bytes > bytes_max:
            return False
        if self.schemas is not None:
            self.uses = self.schemas.collect(self.records(), self.header.count)
        if self.verdict.rebuild:
            self.stored = self.rebuild()
        return True

    cdef object records(self):
        """The decompressed records."""
        if self.plain is not None:
            return self.plain
        return PyMemoryView_FromMemory(<char*>self.data, self.verdict.size, PyBUF_READ)[BATCH_HEADER_BYTES:]

    cdef bytes rebuild(self):
        """The batch with the topic's codec and with offset deltas that have no gaps."""
        cdef int8_t codec = self.rules.target_codec
        data = PyMemoryView_FromMemory(<char*>self.data, self.verdict.size, PyBUF_READ)
        if self.verdict.walk.consecutive:
            return recoded_batch(data, self.records(), codec, self.level, size_max=self.rules.max_message_bytes)
        append_time_ms = self.header.max_timestamp if self.header.attributes & ATTRIBUTE_LOG_APPEND_TIME else None
        stored = rebuild_batch(data, codec=None if codec < 0 else Codec(codec), level=self.level, log_append_time_ms=append_time_ms)
        return stored if len(stored) <= self.rules.max_message_bytes else None
