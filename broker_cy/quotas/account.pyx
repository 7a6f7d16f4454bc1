"""The account of one client; a record, described in the .pxd."""

cdef class Account:
    def __init__(self, str principal not None, bytes client_id not None, int64_t generation, PacedRate produce, PacedRate fetch,
                 PacedRate time):
        self.principal = principal
        self.client_id = client_id
        self.generation = generation
        self.produce = produce
        self.fetch = fetch
        self.time = time
