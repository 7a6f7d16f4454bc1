from collections.abc import Iterable

from typing_extensions import Buffer

class Record:
    """One record. `headers` is a tuple of (str, bytes or None); header keys that are not UTF-8 are read with U+FFFD.

    The key, the value and header values may be any bytes-like objects. Raises TypeError for others.
    """

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int:
        """Milliseconds; -1: none."""
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...
    def __init__(
        self,
        offset: int = 0,
        timestamp: int = -1,
        key: Buffer | None = None,
        value: Buffer | None = None,
        headers: Iterable[tuple[str, Buffer | None]] = (),
    ) -> None: ...
