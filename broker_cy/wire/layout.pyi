from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

from broker_cy.schemas.tables import MessageSpec

class Message:
    """Base of all message classes. `_unknown_tags` has the tagged fields that are not in the tables: tag and raw bytes.
    The `__slots__` of a message class are its fields, in the order of the schema, and `_unknown_tags`.
    """

    __hash__: ClassVar[None]  # type: ignore[assignment]  # messages are mutable, so they have no hash
    API_KEY: ClassVar[int]
    __slots__: tuple[str, ...]
    VERSIONS: ClassVar[tuple[int, int]]
    _unknown_tags: tuple[tuple[int, bytes], ...]
    def __eq__(self, other: object) -> bool: ...

M = TypeVar("M", bound=Message)

def structures(cls: type[M], *columns: Iterable[Any]) -> list[M]: ...
def make_class(spec: MessageSpec, module: str) -> type[Message]: ...
