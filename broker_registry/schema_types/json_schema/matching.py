"""The largest matching of a bipartite graph (Kuhn's algorithm): which alternatives have a partner of their own."""

from __future__ import annotations

from collections.abc import Sequence


def matching(edges: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the partner of each left node that has one; `edges` has the possible partners of each left node."""
    partner: dict[int, int] = {}

    def finds(left: int, tried: set[int]) -> bool:
        for right in edges[left]:
            if right not in tried:
                tried.add(right)
                if right not in partner or finds(partner[right], tried):
                    partner[right] = left
                    return True
        return False

    for left in range(len(edges)):
        finds(left, set())
    return {left: right for right, left in sorted(partner.items(), key=lambda pair: pair[1])}
