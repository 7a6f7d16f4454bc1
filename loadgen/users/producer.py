"""Users that produce: `producer` and `hot-key`. An engine sends their records."""

from __future__ import annotations

from loadgen.users.base import LoadUser


class Producer(LoadUser):
    """Produces records; with keys of a zipf distribution (`hot-key`) some partitions get most of them."""

    abstract = True

    def connect(self) -> None:
        assert self.shared.engine is not None
        self.shared.engine.connect(self.number)

    def drive(self) -> None:
        assert self.shared.engine is not None
        self.shared.engine.produce(self.number)
