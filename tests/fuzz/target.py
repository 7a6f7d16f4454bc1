"""What a fuzz target is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.mutator import Mutator

MIB = 1 << 20


def plain_mutation(mutator: Mutator, data: bytes, other: bytes) -> bytes:
    """A mutation that knows nothing of the target."""
    return bytes(mutator.mutate(data, other))


@dataclass(frozen=True)
class Target:
    """`run` takes one input; it returns where the input is accepted and raises one of `expected` where it is refused.
    Everything else it raises is a finding, so what it asserts are properties.
    """

    name: str
    corpus: Callable[[], list[bytes]]
    run: Callable[[bytes], None]
    expected: tuple[type[Exception], ...]
    iterations: int
    """In `make test`; all targets together make a million."""
    mutate: Callable[[Mutator, bytes, bytes], bytes] = plain_mutation
    memory_bytes_max: int = 64 * MIB
    """Address space that the target may take beyond what it had before the first input."""
    allocated_blocks_max: int = 3000
    """Python objects that may stay behind: caches that inputs fill. A leak per input is some 10,000."""
    close: Callable[[], None] | None = None
