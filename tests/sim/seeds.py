"""The seeds that a simulation runs: parts that test workers can share, or the seed that its variable names; and how to
repeat a seed that found something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


def parts_of(one_seed: str | None, parts: int, part_seeds: int) -> Sequence[range]:
    """Return the seeds from 1 on in `parts` ranges of `part_seeds`; `one_seed`, unless it is None, is the only one."""
    if one_seed is not None:
        return [range(int(one_seed), int(one_seed) + 1)]
    return [range(1 + part * part_seeds, 1 + (part + 1) * part_seeds) for part in range(parts)]


@contextmanager
def repeatable(variable: str, seed: int, test: str, found_at: Callable[[], str]) -> Iterator[None]:
    """Add to an AssertionError the seed, where it was found, and the command that runs this seed again: `test` is the
    file below tests/sim with pytest's further arguments.
    """
    try:
        yield
    except AssertionError as error:
        command = f"{variable}={seed} python -m pytest tests/sim/{test}"
        raise AssertionError(f"seed {seed}: {error}\n{found_at()}\nrepeat with: {command}") from error
