"""How locust spreads users over workers; in a separate process, because importing locust patches the process."""

from __future__ import annotations

import subprocess
import sys

from tests.loadgen.run.kit import ENDS_S, ROOT

PROGRAM = """
import random
from loadgen.run.dispatch import FixedWorkers
from loadgen.scenario.share import shares, worker_of

class Worker:
    def __init__(self, number):
        self.id = f"host_{number}"

for seed in range(200):
    draw = random.Random(seed)
    counts = [draw.randint(1, 30) for _ in range(draw.randint(1, 6))]
    nodes = [Worker(number) for number in range(draw.randint(1, 5))]
    classes = [type(f"Entry{entry}", (), {"fixed_count": count, "weight": 1}) for entry, count in enumerate(counts)]
    worker = lambda name, user: nodes[worker_of(counts, int(name.removeprefix("Entry")), user, len(nodes))].id
    dispatcher = FixedWorkers(nodes, classes, worker)
    dispatcher.new_dispatch(sum(counts), draw.choice([1, 7, 1000]))
    dispatcher._wait_between_dispatch = 0  # otherwise it spawns in real time
    *_, last = dispatcher
    for number, node in enumerate(nodes):
        found = [last[node.id][each.__name__] for each in classes]
        assert found == [share.users for share in shares(counts, number, len(nodes))], (seed, counts, last)
    dispatcher.remove_worker(nodes[0])
    dispatcher.new_dispatch(0, 1000)
    *_, last = dispatcher
    assert not any(any(each.values()) for each in last.values()), (seed, last)
print("even")
"""


def test_locust_gives_each_worker_its_share() -> None:
    """If this fails, locust puts all users of an entry on one worker, and the others' part of its rate is not sent."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=ENDS_S, check=False
    )
    assert run.stdout == "even\n", run.stderr
