"""What can go wrong while records are read."""


class IngestError(Exception):
    """The records cannot be read; the text says why, and what to do."""


class DamagedError(Exception):
    """A segment is damaged; the text names the file, the byte and the offset."""
