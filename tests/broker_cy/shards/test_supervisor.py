"""Acts of the parent of shards, one at a time. tests/sim/shard_world.py has the interleavings."""

from __future__ import annotations

import pytest

from broker_cy.core.supervision import Ready, Started, Terminate
from broker_cy.shards.supervisor import Action, Hello, ShardSupervisor


def serve(supervisor: ShardSupervisor, shard: int, pid: int, *, is_current: bool) -> list[Action]:
    """The shard's process begins to serve. Returns what the parent does."""
    done = list(supervisor.take(Hello(shard, pid, is_current), 10))
    return done + supervisor.take(Ready(shard, pid), 20)


@pytest.mark.parametrize("is_adopted", [True, False])
def test_a_shard_with_other_settings(is_adopted: bool) -> None:
    """If this fails, shards that another parent has started keep its settings; or a node whose file changed since its
    start ends and restarts a shard that has crashed, again and again.
    """
    supervisor = ShardSupervisor(2, has_controller=True)
    supervisor.begin({0: 100, 1: 101} if is_adopted else {}, 0)
    if not is_adopted:
        for shard in (0, 1):
            supervisor.take(Started(shard, 100 + shard), 5)
    serve(supervisor, 0, 100, is_current=True)
    done = serve(supervisor, 1, 101, is_current=False)
    assert [each for each in done if isinstance(each, Terminate)] == (
        [Terminate(1, 101, "it runs with other settings")] if is_adopted else []
    )
