"""Appending the batches of clients. Called for each batch, as C functions."""

from libc.stdint cimport int16_t, int64_t, uint8_t

from broker_cy.replica.partition cimport LOG_APPEND_TIME, AppendResult, Partition
from broker_cy.replica.verification cimport Verification
from broker_cy.wire.batch_check cimport BatchCheck

cdef int append_produced(Partition partition, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms, int16_t acks,
                         int16_t version, Verification verification, BatchCheck check, AppendResult* out) except -1
cdef bint needs_check(Partition partition, const uint8_t* data, Py_ssize_t size) noexcept
cdef BatchCheck new_check(Partition partition, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms, int16_t version)
