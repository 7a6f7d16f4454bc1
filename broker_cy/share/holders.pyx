"""Numbers of the members that hold locks of a share partition: a run has the number, and not the member id."""


cdef class Holders:
    """Has at most one entry for each record that is locked. A member that gets a number takes a record in the same step, or
    loses the number by `drop_unused`."""

    def __cinit__(self):
        self.numbers = {}
        self.names = [None]
        self.held = [0]
        self.unused = []

    cdef int32_t number_of(self, str member_id) except -1:
        """The number of the member, which gets one if it has none."""
        cdef int32_t number = self.find(member_id)
        if number == 0:
            if self.unused:
                number = self.unused.pop()
                self.names[number] = member_id
            else:
                number = <int32_t>len(self.names)
                self.names.append(member_id)
                self.held.append(0)
            self.numbers[member_id] = number
        return number

    cdef int32_t find(self, str member_id) except -1:
        """The number of the member; 0 if it holds nothing."""
        found = self.numbers.get(member_id)
        return 0 if found is None else found

    cdef int drop_unused(self, int32_t number) except -1:
        """Free the number of a member that took no record."""
        if self.names[number] is not None and self.held[number] == 0:
            del self.numbers[self.names[number]]
            self.names[number] = None
            self.unused.append(number)
        return 0

    cdef int take(self, int32_t number, int64_t records) except -1:
        self.held[number] += records
        return 0

    cdef int give_back(self, int32_t number, int64_t records) except -1:
        self.held[number] -= records
        return self.drop_unused(number)
