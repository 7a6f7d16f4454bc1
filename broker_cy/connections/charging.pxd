"""Charges requests to the quotas of a connection's client, and throttles the connection (KIP-13, KIP-124, KIP-219)."""

from libc.stdint cimport int16_t, int32_t, int64_t

from broker_cy.quotas.account cimport Account
from broker_cy.connections.answers cimport AnswerQueue, Reply

cdef Account account_of(AnswerQueue connection)
cdef int64_t charge_fetch(AnswerQueue connection, Reply reply, Py_ssize_t size) except -1
cdef int32_t fetch_bytes_max(AnswerQueue connection, int32_t wanted) noexcept
cdef int charge_answer(AnswerQueue connection, int16_t key, object response) except -1
cdef object timed(object handling, AnswerQueue connection)
