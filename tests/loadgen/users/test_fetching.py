"""Reading from several leaders at the same time, in a separate process, because gevent's hub belongs to a thread."""

from __future__ import annotations

import subprocess
import sys

from tests.support.broker import Target
from tests.support.confluent import send
from tests.support.topics import create_topic

# In the client's metadata, each partition has another leader; all of them are the same broker.
LEADERS = """
import sys
import gevent
from loadgen.engines.base import Work
from loadgen.figures.book import Book
from loadgen.net.cluster import Cluster
from loadgen.net.connection import connect
from loadgen.pace.pacer import Pacer
from loadgen.scenario.model import Scenario, TopicSpec, UserSpec
from loadgen.scenario.share import Share
from loadgen.users.fetching import Fetcher
from loadgen.users.settings import Fetching

address, topic = ("127.0.0.1", int(sys.argv[1])), sys.argv[2]

class Leaders(Cluster):
    links = {}
    def leader_id(self, topic, partition):
        return partition
    def node(self, node_id):
        if node_id not in self.links:
            self.links[node_id] = connect(address, "leaders", 30.0)
        return self.links[node_id]

spec = UserSpec("consumer", "c", 1)
scenario = Scenario("s", topic=TopicSpec(topic, 3), users=(spec,))
book = Book()
work = Work((address,), scenario, spec, 3, 1, 0, Share(), Pacer(), book.meter("Produce"), book, None)
fetcher = Fetcher(work, Leaders([address], "leaders", 30.0), Fetching(500, 1 << 20))
fetcher.assign({0: 0, 1: 0, 2: 0})
# Partition 2 is empty: its leader holds the request, and the others must not wait for it.
read = {0: 0, 1: 0, 2: 0}
while read != {0: 2, 1: 3, 2: 0}:
    for span in fetcher.poll(2_000):
        read[span.partition] += span.records
assert fetcher.positions == {0: 2, 1: 3, 2: 0}, fetcher.positions
# Records that were requested before a rebalance must not come after it.
fetcher.assign({0: 1})
assert [(each.first, each.records) for each in fetcher.poll(500)] == [(1, 1)]
assert fetcher.poll(10) == []
fetcher.close()
print("read")
"""


def test_leaders_are_read_side_by_side(own_broker: Target, topic: str) -> None:
    """If this fails, a user with partitions of several brokers is as slow as the broker with the least data, or rereads
    records after a rebalance.
    """
    create_topic(own_broker.bootstrap, topic, 3)
    for _ in range(2):
        send(own_broker, topic, [b"one"], 0)
    send(own_broker, topic, [b"one", b"two", b"three"], 1)
    command = [sys.executable, "-c", LEADERS, str(own_broker.port), topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["read"]
