"""Values and keys of the records that client processes send, generated once from a seed."""

import itertools
import random
from collections.abc import Iterator

from bench.spec.workload import Workload
from broker_cy.client.payload.draws import draw, value

POOL_BYTES = 2 << 20  # and at least two batches, so that no batch contains a value twice, which a codec would find
POOL_BYTES_MAX = 64 << 20
POOL_VALUES_MIN, POOL_VALUES_MAX = 4, 20_000  # each is a Python message object


def values(workload: Workload, seed: int) -> list[bytes]:
    """Generate values of the workload's sizes and entropy, within the limits above."""
    source = random.Random(seed)
    left = min(POOL_BYTES_MAX, max(POOL_BYTES, 2 * workload.batch_bytes))
    made: list[bytes] = []
    while (left > 0 and len(made) < POOL_VALUES_MAX) or len(made) < POOL_VALUES_MIN:
        made.append(value(source, draw(source, workload.record_size), workload.entropy))
        left -= len(made[-1])
    return made


def keys(workload: Workload, seed: int) -> Iterator[bytes] | None:
    """Return all keys of the workload in a random order, repeated endlessly; None if records have no keys.

    Raises ValueError if fewer different keys of that size exist.
    """
    if not workload.keys:
        return None
    if workload.keys > 256**workload.key_bytes:
        raise ValueError(f"there are fewer than {workload.keys} different keys of {workload.key_bytes} bytes")
    made = [number.to_bytes(workload.key_bytes, "big") for number in range(workload.keys)]
    random.Random(seed).shuffle(made)
    return itertools.cycle(made)
