"""The account of one client: its rates of each kind of quota."""

from libc.stdint cimport int64_t

from broker_cy.quotas.rate cimport PacedRate

cdef class Account:
    cdef readonly str principal
    cdef readonly bytes client_id
    cdef readonly int64_t generation    # of the quotas when it was made: another one makes it out of date
    # Without a quota, None.
    cdef readonly PacedRate produce     # bytes of Produce requests
    cdef readonly PacedRate fetch       # bytes of Fetch answers
    cdef readonly PacedRate time        # percent of the time of the loop
