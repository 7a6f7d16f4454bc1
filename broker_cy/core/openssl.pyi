from collections.abc import Sequence
from typing import Final

# What TlsSession.shake returns.
SHAKEN: Final[int]
WANTS_READ: Final[int]
WANTS_WRITE: Final[int]
FAILED: Final[int]
SHAKE_BYTES_MAX: Final[int]

class TlsError(Exception): ...

def version() -> str: ...
def read_key(pem: bytes, password: bytes) -> bytes: ...
def read_pkcs12(data: bytes, password: bytes) -> tuple[bytes | None, list[bytes]]: ...

class TlsContext:
    is_server: bool
    def __init__(
        self,
        *,
        is_server: bool,
        oldest: str = ...,
        newest: str = ...,
        ciphers: Sequence[str] | None = ...,
        suites: Sequence[str] | None = ...,
        chain: Sequence[bytes] = ...,
        key: bytes | None = ...,
        trusted: Sequence[bytes] | None = ...,
        asks: bool = ...,
        requires: bool = ...,
    ) -> None: ...
    def known_ciphers(self) -> dict[str, str]: ...

class TlsSession:
    shake_bytes: int
    def __init__(self, context: TlsContext, fd: int, host: str | None = ..., checks_host: bool = ...) -> None: ...
    def shake(self) -> int: ...
    @property
    def has_peer_left(self) -> bool: ...
    @property
    def failure(self) -> str: ...
    @property
    def peer_certificate(self) -> bytes | None: ...
    @property
    def protocol(self) -> str: ...
    @property
    def cipher(self) -> str: ...
