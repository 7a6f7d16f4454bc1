"""Users that read without a group: `consumer`.

The users of an entry read the partitions in turn: user n of N reads those whose number is n modulo N. If there are more
users than partitions, each user reads all of them.
"""

from __future__ import annotations

from loadgen.net.cluster import Cluster
from loadgen.users.base import LoadUser
from loadgen.users.fetching import Fetcher
from loadgen.users.settings import Consuming, Fetching, settings_of


class Consumer(LoadUser):
    """Reads its partitions, one Fetch request after the other."""

    abstract = True
    cluster: Cluster
    fetcher: Fetcher

    def connect(self) -> None:
        self._fetching, self._consuming = settings_of(Fetching, self.spec), settings_of(Consuming, self.spec)
        self.cluster = self.new_cluster()
        self.fetcher = Fetcher(self.shared.work, self.cluster, self._fetching)
        everything = [each.number for each in self.cluster.partitions(self.fetcher.topic)]
        users = self.spec.count
        mine = everything if users > len(everything) else [each for each in everything if each % users == self.place]
        self._firsts = self.fetcher.begin(mine, "earliest")
        self.fetcher.assign(self._firsts if self._fetching.from_ == "earliest" else self.fetcher.begin(mine, "latest"))

    def perform(self, due_ns: int) -> None:
        fetcher = self.fetcher
        fetcher.poll(self.wait_ms(self._fetching.max_wait_ms))
        if self._consuming.repeat:
            for partition, end in fetcher.ends.items():
                if fetcher.positions[partition] >= end > self._firsts[partition]:
                    fetcher.positions[partition] = self._firsts[partition]
                    self.load.book.count("repeats")

    def disconnect(self) -> None:
        if hasattr(self, "fetcher"):
            self.fetcher.close()
        if hasattr(self, "cluster"):
            self.cluster.close()
