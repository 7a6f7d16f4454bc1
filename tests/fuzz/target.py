"""The definition of a fuzz target."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.mutator import Mutator

MIB = 1 << 20
WORD = re.compile(rb"[0-9A-Za-z_.+-]+")


def plain_mutation(mutator: Mutator, data: bytes, other: bytes) -> bytes:
    """A mutation that does not depend on the target."""
    return bytes(mutator.mutate(data, other))


# Unusual numbers, lists and text that a reader of text files may not expect.
TOKENS = (
    b"1e999", b"-1e999", b"NaN", b"0.5", b"-0", b"-1", b"+7", b"1_000", b"2147483648", b"9223372036854775808", b"=",
    b"9" * 30, b"9" * 5000, b"[" * 20_000, b'{"a":' * 3000, b"null", b"true", b'""', b"\\ud800", b"\xd9\xa3", b"\x00",
    b"\r", b" ", b"\n\n", b":",
)  # fmt: skip


def text_mutation(mutator: Mutator, data: bytes, other: bytes) -> bytes:
    """A mutation of text: half of the time a word or a number is replaced."""
    r = mutator.bits(40)
    words = list(WORD.finditer(data))
    if r & 1 == 0 or not words:
        return bytes(mutator.mutate(data, other))
    word = words[(r >> 8) % len(words)]
    return data[: word.start()] + TOKENS[(r >> 24) % len(TOKENS)] + data[word.end() :]


@dataclass(frozen=True)
class Target:
    """`run` processes one input: it returns if the input is accepted and raises one of `expected` if it is refused.
    Every other exception is a finding, so its assertions are properties.
    """

    name: str
    corpus: Callable[[], list[bytes]]
    run: Callable[[bytes], None]
    expected: tuple[type[Exception], ...]
    iterations: int
    """Inputs under `make test`; all targets together make a million."""
    mutate: Callable[[Mutator, bytes, bytes], bytes] = plain_mutation
    memory_bytes_max: int = 64 * MIB
    """Address space that the target may take in addition to its size before the first input."""
    allocated_blocks_max: int = 3000
    """Python objects that may remain: caches that inputs fill. A leak per input is about 10,000."""
    close: Callable[[], None] | None = None
