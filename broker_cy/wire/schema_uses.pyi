from typing_extensions import Buffer

class SchemaUse:
    """The records that name one schema: the number of all, and the places of the first ones in the batch."""

    @property
    def records(self) -> int: ...
    @property
    def places(self) -> list[int]: ...

class SchemaUses:
    """The schemas that the keys, or the values, of a batch name: ids, GUIDs of 16 bytes, None if no schema is named.
    `is_full`: the batch names more than 1,000; the others are left out.
    """

    @property
    def found(self) -> dict[int | bytes | None, SchemaUse]: ...
    @property
    def is_full(self) -> bool: ...

def schemas_of(
    records: Buffer, count: int, *, keys: bool = False, values: bool = False
) -> tuple[SchemaUses | None, SchemaUses | None]:
    """Collect the schemas of `count` records: the uncompressed bytes behind the header of a batch. Raises WireError."""
