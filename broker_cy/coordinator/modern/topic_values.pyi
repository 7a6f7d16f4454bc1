from collections.abc import Callable, Iterable, Mapping, Set, Sized
from typing import TypeVar
from uuid import UUID

# A topic, and its partitions.
K = TypeVar("K")
V = TypeVar("V")
M = TypeVar("M", bound=Mapping[int, object])
S = TypeVar("S", bound=Sized)
R = TypeVar("R")

def in_order(topic_ids: Iterable[UUID]) -> list[UUID]:
    """The ids in the order of their numbers. Those that are in order already are only compared."""

def of_each(values: Iterable[V], make: Callable[[V], R]) -> list[R]:
    """The results of `make` for the values. It is called once for each object: 10,000 topics have few values."""

def added_to(before: Mapping[K, V], after: Mapping[K, V]) -> list[tuple[K, V]] | None:
    """The last topics of `after`, if its first ones are those of `before` with the same objects as values, else None.
    It computes no hash: that of a topic id takes most of the time of a look-up.
    """

def has_other_epochs(before: Mapping[K, M], after: Mapping[K, M]) -> bool:
    """Whether the same topics, in their order, have the same partitions, since other epochs: one value in place of each
    other one.
    """

def other_values(held: Mapping[K, V], others: Mapping[K, V]) -> tuple[dict[K, V], list[K]]:
    """The topics whose value in `others` is another object, or that `others` lacks; and the former alone."""

def incomplete(target: Mapping[K, S], assigned: Mapping[K, Sized]) -> tuple[list[K], list[S]]:
    """The topics of a target that a member does not have, or has in part, and the partitions of each in the target."""

def kept_of(
    assigned: Mapping[K, Mapping[int, int]], target: Mapping[K, Set[int]]
) -> tuple[dict[K, Mapping[int, int]], dict[K, Mapping[int, int]]]:
    """The assigned partitions that are in the target, and the others. A topic with all or none of them keeps its value;
    topics whose values are one object get one object.
    """

def own(owners: dict[K, Mapping[int, str]], member_id: str, held: Iterable[tuple[K, Mapping[int, object]]]) -> int:
    """The member owns these partitions of topics, too. Returns how many have an owner that had none. A value of
    `owners` is replaced and never changed: topics whose values are one object get one object.
    """

def disown(owners: dict[K, Mapping[int, str]], member_id: str, held: Mapping[K, Mapping[int, object]]) -> int:
    """The member does not own these partitions any more, as far as it did. Returns how many have no owner now. Values
    as in `own`; a topic without an owner leaves `owners`.
    """

def count(counts: dict[K, int], names: Iterable[K], change: int) -> None:
    """Add `change` to the count of each name. A name whose count becomes 0 leaves `counts`."""
