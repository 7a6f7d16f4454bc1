from libc.stdint cimport int32_t, int64_t


# Numbers of the members that hold locks. A number is free again as soon as its member holds none.
cdef class Holders:
    cdef dict numbers               # member id -> number
    cdef list names                 # member id at its number; None at 0 and at free numbers
    cdef list held                  # records with the number
    cdef list unused                # free numbers

    cdef int32_t number_of(self, str member_id) except -1
    cdef int32_t find(self, str member_id) except -1
    cdef int drop_unused(self, int32_t number) except -1
    cdef int take(self, int32_t number, int64_t records) except -1
    cdef int give_back(self, int32_t number, int64_t records) except -1
