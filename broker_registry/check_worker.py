"""The process of long checks: reads checks from its input, writes their results, and ends with its input.

request, answer   4 bytes of length, big endian, and a pickled check, result or exception
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from typing import BinaryIO, Final

from broker_registry.checks import Check, ParsedCache
from broker_registry.schema_types.base import InvalidSchema

LENGTH_BYTES: Final = 4
RECURSION_MAX: Final = 10_000
"""Calls within each other: a comparison goes through all types that lead to each other."""
STACK_BYTES: Final = 64 << 20
"""Enough for that many calls of C code, too."""


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until their end."""
    cache = ParsedCache()
    while len(head := requests.read(LENGTH_BYTES)) == LENGTH_BYTES:
        check: Check = pickle.loads(requests.read(int.from_bytes(head, "big")))
        try:
            answer: object = check.run(cache)
        except InvalidSchema as error:
            answer = error
        except (RecursionError, MemoryError) as error:
            answer = InvalidSchema(f"the schema is too large or too deep: {type(error).__name__}")
        data = pickle.dumps(answer)
        answers.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
        answers.flush()


if __name__ == "__main__":
    # Requests of clients are served first.
    os.nice(5)
    sys.setrecursionlimit(RECURSION_MAX)
    threading.stack_size(STACK_BYTES)
    threading.Thread(target=serve, args=(sys.stdin.buffer, sys.stdout.buffer)).start()
