"""The cleaner's map of keys to their newest offset. Its contents and its bound are described in offset_map.pxd.

The hash is SipHash-1-3 with 128 bits of output and a random key. The probability that any two of the n keys of a log have the same
hash is about n^2 / 2^129, and a client that chooses the keys cannot cause a collision.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

SECRET_BYTES = 16

cdef extern from *:
    """
    #define bc_prefetch(p) __builtin_prefetch(p)
    """
    void bc_prefetch(const void* p) noexcept nogil

cdef enum:
    SLOT_BYTES = 24
    # The first table of a pass has 1/FIRST_SHARE of the slots that the bound allows.
    FIRST_SHARE = 16


cdef inline uint64_t rotate(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef struct SipState:
    uint64_t a
    uint64_t b
    uint64_t c
    uint64_t d


cdef inline void sip_round(SipState* s) noexcept nogil:
    s.a += s.b
    s.b = rotate(s.b, 13) ^ s.a
    s.a = rotate(s.a, 32)
    s.c += s.d
    s.d = rotate(s.d, 16) ^ s.c
    s.a += s.d
    s.d = rotate(s.d, 21) ^ s.a
    s.c += s.b
    s.b = rotate(s.b, 17) ^ s.c
    s.c = rotate(s.c, 32)


cdef inline void sip_word(SipState* s, uint64_t word) noexcept nogil:
    s.d ^= word
    sip_round(s)
    s.a ^= word


cdef inline void hash_key(OffsetMap table, const uint8_t* key, int64_t size, uint64_t* low, uint64_t* high) noexcept nogil:
    cdef SipState s
    cdef uint64_t word
    cdef int64_t left = size
    s.a = table.key_low ^ <uint64_t>0x736F6D6570736575
    s.b = table.key_high ^ <uint64_t>0x646F72616E646F6D ^ <uint64_t>0xEE
    s.c = table.key_low ^ <uint64_t>0x6C7967656E657261
    s.d = table.key_high ^ <uint64_t>0x7465646279746573
    while left >= 8:
        memcpy(&word, key, 8)
        sip_word(&s, word)
        key += 8
        left -= 8
    word = 0
    memcpy(&word, key, <size_t>left)
    sip_word(&s, word | (<uint64_t>size << 56))
    s.c ^= 0xEE
    sip_round(&s)
    sip_round(&s)
    sip_round(&s)
    low[0] = s.a ^ s.b ^ s.c ^ s.d
    s.b ^= 0xDD
    sip_round(&s)
    sip_round(&s)
    sip_round(&s)
    high[0] = s.a ^ s.b ^ s.c ^ s.d


cdef inline int64_t first_slot(int64_t count, uint64_t low) noexcept nogil:
    """The slot at which the search for a key begins. The upper half of a product spreads 32 bits of the hash over any number of
    slots without a division."""
    return <int64_t>(((low >> 32) * <uint64_t>count) >> 32)


cdef inline Slot* slot_for(Slot* slots, int64_t count, uint64_t low, uint64_t high) noexcept nogil:
    """The slot that holds a key or is free for it; there is always a free one."""
    cdef int64_t at = first_slot(count, low)
    while slots[at].next_offset != 0 and (slots[at].low != low or slots[at].high != high):
        at += 1
        if at == count:
            at = 0
    return &slots[at]


cdef class OffsetMap:
    """Room for `max_bytes` // 24 keys at `load_factor`. `secret`, SECRET_BYTES that no client can know, keeps clients from
    choosing keys that collide. Raises ValueError if not one key fits, MemoryError.
    """

    def __cinit__(self, int64_t max_bytes, bytes secret not None, double load_factor=0.9):
        # Slots are found by 32 bits of the hash, which spread over at most 2^31 of them (48 GiB).
        cdef int64_t most = min(max_bytes // SLOT_BYTES, 0x7FFFFFFF)
        cdef int64_t first = most // FIRST_SHARE
        if not 0 < load_factor <= 1 or <int64_t>(most * load_factor) < 1:
            raise ValueError(f"an offset map of {max_bytes} bytes with a load factor of {load_factor} has no room for one key")
        self.load_factor = load_factor
        self.large_slot_count = most - first if <int64_t>(first * load_factor) >= 1 else 0
        self.slot_count = first if self.large_slot_count > 0 else most
        self.set_limit()
        self.key_low = int.from_bytes(secret[:8])
        self.key_high = int.from_bytes(secret[8:])
        self.latest_offset = -1
        self.slots = <Slot*>calloc(<size_t>self.slot_count, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError(f"no memory for an offset map of {max_bytes} bytes")

    def __dealloc__(self):
        free(self.slots)

    cdef int set_limit(self) noexcept nogil:
        self.entries_limit = <int64_t>(self.slot_count * self.load_factor)
        # One slot stays free, so that every search ends.
        if self.entries_limit >= self.slot_count:
            self.entries_limit = self.slot_count - 1

    @property
    def size_bytes(self):
        """Size of the table in use."""
        return self.slot_count * SLOT_BYTES

    @property
    def capacity(self):
        """How many keys fit into the largest table."""
        count = self.large_slot_count or self.slot_count
        return min(int(count * self.load_factor), count - 1)

    cdef int grow(self) noexcept nogil:
        """Switch to the large table; return 1, 0 if it is in use already, -1 if there is no memory."""
        cdef Slot* larger
        cdef int64_t i
        if self.large_slot_count == 0:
            return 0
        larger = <Slot*>calloc(<size_t>self.large_slot_count, sizeof(Slot))
        if larger == NULL:
            return -1
        for i in range(self.slot_count):
            if self.slots[i].next_offset != 0:
                slot_for(larger, self.large_slot_count, self.slots[i].low, self.slots[i].high)[0] = self.slots[i]
        free(self.slots)
        self.slots = larger
        self.slot_count = self.large_slot_count
        self.large_slot_count = 0
        self.set_limit()
        return 1

    cdef void hash(self, const uint8_t* key, int64_t size, uint64_t* low, uint64_t* high) noexcept nogil:
        hash_key(self, key, size, low, high)
        bc_prefetch(&self.slots[first_slot(self.slot_count, low[0])])

    cdef int put(self, uint64_t low, uint64_t high, int64_t offset) noexcept nogil:
        cdef Slot* slot
        cdef int grown
        slot = slot_for(self.slots, self.slot_count, low, high)
        if slot.next_offset == 0:
            if self.entries >= self.entries_limit:
                grown = self.grow()
                if grown <= 0:
                    return grown
                slot = slot_for(self.slots, self.slot_count, low, high)
            slot.low = low
            slot.high = high
            self.entries += 1
        slot.next_offset = offset + 1
        self.latest_offset = offset
        return 1

    cdef int64_t find(self, uint64_t low, uint64_t high) noexcept nogil:
        return slot_for(self.slots, self.slot_count, low, high).next_offset - 1

    def add(self, bytes key not None, int64_t offset):
        """put, for Python: False if the key is new and does not fit. Raises MemoryError."""
        cdef uint64_t low = 0, high = 0
        cdef int done
        self.hash(key, len(key), &low, &high)
        done = self.put(low, high, offset)
        if done < 0:
            raise MemoryError("no memory for a larger offset map")
        return done == 1

    def get(self, bytes key not None):
        """find, for Python."""
        cdef uint64_t low = 0, high = 0
        self.hash(key, len(key), &low, &high)
        return self.find(low, high)
