from collections.abc import Generator, Iterable
from typing import Any, TypeVar
from uuid import UUID

from typing_extensions import Buffer

from broker_cy.core.writer import Writer
from broker_cy.wire.layout import Message as Message
from broker_cy.wire.layout import make_class as make_class
from broker_cy.wire.layout import structures as structures

__all__ = [
    "EncodedElements",
    "Message",
    "decode",
    "decode_parts",
    "decode_prefix",
    "decode_request",
    "decode_versioned",
    "encode",
    "encode_into",
    "encode_versioned",
    "make_class",
    "structures",
]

M = TypeVar("M", bound=Message)

def encode(message: Message, version: int) -> bytes: ...
def encode_into(writer: Writer, message: Message, version: int) -> None: ...
def decode(cls: type[M], version: int, buffer: Buffer) -> M: ...
def decode_parts(cls: type[M], version: int, buffer: Buffer, elements: int = ...) -> Generator[None, None, M]: ...
def decode_prefix(cls: type[M], version: int, buffer: Buffer) -> tuple[M, int]: ...
def decode_request(cls: type[M], version: int, buffer: Buffer, elements: int = ...) -> M: ...
def encode_versioned(message: Message, version: int) -> bytes: ...
def decode_versioned(cls: type[M], buffer: Buffer) -> tuple[M, int]: ...

class EncodedElements:
    """The structures of a large array, encoded in parts; it stands in place of the list."""

    version: int
    count: int

    def __init__(self, cls: type[Message], version: int) -> None: ...
    def add(self, elements: Iterable[Message]) -> None: ...
    def add_columns(self, ids: Iterable[UUID] | Iterable[str], *columns: Iterable[Any]) -> None: ...
