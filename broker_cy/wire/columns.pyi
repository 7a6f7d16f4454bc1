from broker_cy.wire.records import Batch

# Validity bits (one for each value), the number of nulls, the ends of the values as int32 after a 0, and their bytes.
Values = tuple[bytes, int, bytes, bytes]
# Validity bits of the rows, the number of nulls, the ends of the rows' lists, and keys and values of all lists.
Headers = tuple[bytes, int, bytes, int, Values, Values]

class Columns:
    """The records of batches as columns in Arrow's layout: at most `rows_max` rows, and `bytes_max` bytes unless one
    record alone is larger.
    """

    rows: int
    def __init__(self, rows_max: int, bytes_max: int, with_headers: bool = False) -> None: ...
    def begin(self, batch: Batch, first_offset: int, end_offset: int) -> None:
        """Begin a batch and select its records from `first_offset` up to, but not including, `end_offset`.

        All of its records are checked here, so that no part of a malformed batch becomes rows. Raises WireError, which
        describes the fault.
        """
    def fill(self) -> bool:
        """Add records of the begun batch as rows. True: all are in. False: `take` the rows, and call again."""
    def take(self) -> tuple[int, Values, Values, bytes, bytes, bytes, Headers | None]:
        """Return and clear the rows: their number, keys, values, offsets (int64), timestamps (int64, us since 1970),
        timestamp types (int32: 0 CreateTime, 1 LogAppendTime) and headers (null for a record without any).
        """
