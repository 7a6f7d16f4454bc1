"""The producers that were replaced: those with an older epoch than a later InitProducerId of the transactional id
returned.
"""

from __future__ import annotations


class Fenced:
    def __init__(self) -> None:
        # By transactional id and producer id: the greatest epoch that an InitProducerId returned.
        self._epochs: dict[tuple[str, int], int] = {}
        self._ids: dict[str, None] = {}

    def began(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """An InitProducerId returned this."""
        key = transactional_id, producer_id
        self._epochs[key] = max(self._epochs.get(key, -1), epoch)
        self._ids[transactional_id] = None

    def is_fenced(self, transactional_id: str, producer_id: int, epoch: int) -> bool:
        """Whether a request of this producer that is sent from now on must be refused."""
        return epoch < self._epochs.get((transactional_id, producer_id), -1)

    def ids(self, host: str) -> list[str]:
        """The transactional ids of the clients of a broker."""
        return [each for each in self._ids if f"-{host}" in each]
