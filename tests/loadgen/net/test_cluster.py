"""A client's view of a cluster, in a separate process, because gevent's hub belongs to a thread."""

from __future__ import annotations

import subprocess
import sys

from tests.support.broker import Target
from tests.support.topics import create_topic

# Many greenlets that need the same broker at the same time must share one connection, and none must be left open.
SHARED = """
import os, sys, gevent
from loadgen.net.cluster import EARLIEST, Cluster
address = ("127.0.0.1", int(sys.argv[1]))
cluster = Cluster([address], "shared", 30.0)
found = [gevent.spawn(cluster.connection, address) for _ in range(20)]
gevent.joinall(found, raise_error=True)
assert len({id(each.value) for each in found}) == 1
latest = cluster.offsets(sys.argv[2], [0, 1])
print(latest[0], latest[1], cluster.offsets(sys.argv[2], [1], EARLIEST), len(cluster.addresses()))
files = {os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")}
cluster.close()
print(sum("socket:" in each for each in files))
"""


def test_greenlets_share_a_connection(either_broker: Target, topic: str) -> None:
    """If this fails, users leak a connection whenever two of their requests need a new one at the same time."""
    create_topic(either_broker.bootstrap, topic, 2)
    command = [sys.executable, "-c", SHARED, str(either_broker.port), topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["0 0 {1: 0} 1", "1"]
