"""COUNT_DISTINCT: exact for the first values, then an estimate by HyperLogLog (Flajolet and others, 2007).

A state is an array of BIGINT. Up to 512 values it holds a 64-bit digest of each. Beyond, it holds 4,096 registers of
6 bits, ten in a number, behind the mark -1: the standard error is 1.04 / sqrt(4096) = 1.6 %.
"""

from __future__ import annotations

import hashlib
import math
import struct
from typing import Any, Final

from broker_sql.functions.aggregates.basic import AGGREGATE
from broker_sql.functions.definitions import Parts, Resolved
from broker_sql.types import BIGINT, Array

_count_distinct = AGGREGATE.aggregate(
    "COUNT_DISTINCT", "The number of different values; beyond 512, an estimate.", value="the column"
)
_EXACT_LIMIT: Final = 512
_INDEX_BITS: Final = 12
_REGISTERS: Final = 1 << _INDEX_BITS
_BITS: Final = 6
_PER_WORD: Final = 10
_WORDS: Final = -(-_REGISTERS // _PER_WORD)
_DENSE: Final = -1  # the first number of a state with registers; digests are shifted away from it
_ALPHA: Final = 0.7213 / (1 + 1.079 / _REGISTERS)


def _canonical(value: Any) -> str:
    """Return a text that is equal for equal values, whatever the order of entries of a map."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{_canonical(key)}:{_canonical(each)}" for key, each in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return repr(value)


def _digest(value: Any) -> int:
    """Return 63 bits of a digest that is the same in all processes."""
    data = value.encode("utf-8", "replace") if isinstance(value, str) else _canonical(value).encode()
    found: int = struct.unpack(">Q", hashlib.blake2b(data, digest_size=8).digest())[0]
    return found >> 1


def _with(state: list[int], digest: int) -> list[int]:
    """Return the registers with one more digest."""
    index, rest = digest >> (63 - _INDEX_BITS), digest & ((1 << (63 - _INDEX_BITS)) - 1)
    rank = 63 - _INDEX_BITS - rest.bit_length() + 1
    word, shift = 1 + index // _PER_WORD, index % _PER_WORD * _BITS
    if (state[word] >> shift) & 63 >= rank:
        return state
    changed = list(state)
    changed[word] = changed[word] & ~(63 << shift) | rank << shift
    return changed


def _dense(digests: list[int]) -> list[int]:
    state = [_DENSE, *[0] * _WORDS]
    for each in digests:
        state = _with(state, each)
    return state


def _add_digest(digest: int, state: list[int]) -> list[int]:
    if state and state[0] == _DENSE:
        return _with(state, digest)
    if digest in state:
        return state
    return [*state, digest] if len(state) < _EXACT_LIMIT else _with(_dense(state), digest)


def _add(value: Any, state: list[int]) -> list[int]:
    return state if value is None else _add_digest(_digest(value), state)


def _registers(state: list[int]) -> list[int]:
    found = [(word >> shift) & 63 for word in state[1:] for shift in range(0, _PER_WORD * _BITS, _BITS)]
    return found[:_REGISTERS]


def _merge(one: list[int], other: list[int]) -> list[int]:
    if not other or other[0] != _DENSE:
        for each in other:
            one = _add_digest(each, one)
        return one
    if not one or one[0] != _DENSE:
        return _merge(other, one)
    greatest = [max(pair) for pair in zip(_registers(one), _registers(other), strict=True)]
    state = [_DENSE, *[0] * _WORDS]
    for index, rank in enumerate(greatest):
        state[1 + index // _PER_WORD] |= rank << index % _PER_WORD * _BITS
    return state


def _estimate(state: list[int]) -> int:
    if not state or state[0] != _DENSE:
        return len(state)
    registers = _registers(state)
    found = _ALPHA * _REGISTERS * _REGISTERS / sum(2.0**-rank for rank in registers)
    empty = registers.count(0)
    if found <= 2.5 * _REGISTERS and empty:
        found = _REGISTERS * math.log(_REGISTERS / empty)
    return round(found)


@_count_distinct("(value T) BIGINT")
def _(resolved: Resolved) -> Parts:
    return Parts(list, _add, _merge, Array(BIGINT), result=_estimate)
