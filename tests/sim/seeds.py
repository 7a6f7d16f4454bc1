"""Which seeds a simulation runs: parts that test workers can share, or the one that its variable names."""

from __future__ import annotations

from collections.abc import Sequence


def parts_of(one_seed: str | None, parts: int, part_seeds: int) -> Sequence[range]:
    """Return the seeds from 1 on in `parts` ranges of `part_seeds`; `one_seed`, unless it is None, is the only one."""
    if one_seed is not None:
        return [range(int(one_seed), int(one_seed) + 1)]
    return [range(1 + part * part_seeds, 1 + (part + 1) * part_seeds) for part in range(parts)]
