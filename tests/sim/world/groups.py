"""What the world knows about consumer groups: who owned what, and what was committed."""

from __future__ import annotations

from tests.history.operations import Place


class Groups:
    def __init__(self) -> None:
        self._owners: dict[tuple[str, int, Place], str] = {}
        self._committed: dict[tuple[str, Place], int] = {}

    def own(self, group: str, generation: int, place: Place, member_id: str) -> None:
        """A member begins with a partition. Raises AssertionError if another one owns it in this generation."""
        owner = self._owners.setdefault((group, generation, place), member_id)
        assert owner == member_id, f"{group}: {place} has two owners in generation {generation}: {owner}, {member_id}"

    def commit(self, group: str, place: Place, offset: int) -> None:
        """A commit was acknowledged. Positions of a group only go on, so that the greatest one counts."""
        key = group, place
        self._committed[key] = max(self._committed.get(key, -1), offset)

    def committed(self, group: str, place: Place) -> int:
        return self._committed.get((group, place), -1)

    def check_fetched(self, group: str, place: Place, offset: int, acknowledged: int) -> None:
        """Raises AssertionError if a member finds less than was acknowledged before it asked."""
        assert offset >= acknowledged, f"{group}: the commit of {acknowledged} in {place} is lost: found {offset}"
