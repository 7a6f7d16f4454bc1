"""A client's side of a fetch session: the broker and the client must mean the same partitions and offsets."""

from __future__ import annotations

from random import Random
from uuid import UUID

from broker_cy.admin.fetch_session_handler import FetchSessionHandler
from broker_cy.admin.metadata import TopicPartition


class Broker:
    """The side of the broker: partitions with their offsets, by the ids of topics."""

    def __init__(self) -> None:
        self.id = self.epoch = 0
        self.partitions: dict[tuple[UUID, int], int] = {}

    def take(self, session: FetchSessionHandler, wanted: dict[TopicPartition, int], ids: dict[str, UUID]) -> None:
        asked = session.next(wanted, ids.__getitem__)
        if asked.epoch == 0:
            self.id, self.epoch, self.partitions = self.id + 1, 0, {}
            assert not asked.forgotten
        else:
            assert (asked.session_id, asked.epoch) == (self.id, self.epoch)
        for key, topic_id in asked.forgotten:
            del self.partitions[topic_id, key.partition]
        for key, offset in asked.changed.items():
            self.partitions[ids[key.topic], key.partition] = offset
        self.epoch += 1
        session.took(self.id)


def test_random_wishes_are_those_of_the_broker() -> None:
    """If this fails, a partition is fetched from an offset that is not wanted any more, or not at all."""
    for seed in range(100):
        draw = Random(seed)
        session, broker = FetchSessionHandler(), Broker()
        wanted: dict[TopicPartition, int] = {}
        ids = {name: UUID(int=index) for index, name in enumerate("abc")}
        for step in range(60):
            key = TopicPartition(draw.choice("abc"), draw.randrange(4))
            match draw.randrange(12):
                case 0:
                    session.reset()
                case 1:
                    # Deleted and created again.
                    ids[key.topic] = UUID(int=100 + step)
                case 2 | 3:
                    wanted.pop(key, None)
                case 4 if seed % 2:
                    session.took(0)  # the broker has no room
                case _:
                    wanted[key] = draw.randrange(5)
            broker.take(session, wanted, ids)
            expected = {(ids[each.topic], each.partition): offset for each, offset in wanted.items()}
            assert broker.partitions == expected, (seed, step)
