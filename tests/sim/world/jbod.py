"""The invariants of machines with several data disks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from broker_cy.controller.rules import directory_of
from tests.sim.world.cluster import Lagging, node_of
from tests.sim.world.disk_array import FAILED, DiskArray

if TYPE_CHECKING:
    from tests.sim.world.disk_array import Member
    from tests.sim.world.machine import Machine
    from tests.sim.world.world import World

# The time between the first failed access to a disk and the leadership of others.
LEADS_US = 1_000_000


def check_soon(world: World, machine: Machine, member: Member) -> None:
    """The first access to a disk has failed: others lead its partitions soon, and those on other disks are served. Only
    brokers that nothing else happens to are held to this.
    """
    state, ends = member.state, {each: each.ends for each in world.machines.values()}
    if state not in FAILED or not all(each.is_started and not each.is_stopping for each in world.machines.values()):
        return
    began_us = world.time.now_us
    leaders = machine.cluster.active_controller()

    def check() -> None:
        is_alone = all(each.ends == ends[each] and each.started_us < began_us for each in ends)
        calm = all(each.disk.faults.active is (each is machine) for each in ends)
        if world.recovers or not is_alone or not calm or member.state is not state:
            return
        if machine.is_stopping or leaders is None or machine.cluster.active_controller() is not leaders:
            return
        assert machine.server is not None
        directories = machine.server.broker.log_manager.data_directories
        assert any(each.failure is not None for each in directories if each.path == member.root), (
            f"{machine.host}: {member.root} is {state.value}, and the broker goes on with it"
        )
        check_served(machine)
        _check_led_elsewhere(machine, member)

    world.at(began_us + LEADS_US, check)


def _check_led_elsewhere(machine: Machine, member: Member) -> None:
    assert machine.server is not None
    node = node_of(machine.host)
    here = {
        (each.topic, each.index): each.offline
        for each in machine.server.broker.partitions
        if each.offline is not None and member.root in each.offline
    }
    for host, other in machine.cluster.machines.items():
        if other is machine or other.server is None:
            continue
        for topic in other.server.broker.image.topics:
            for index, each in topic.partitions.items():
                assert (topic.name, index) not in here or each.leader != node or len(each.isr) == 1, (
                    f"{host}: {machine.host} still leads {topic.name}-{index}, and its disk has failed ({each})"
                )


def check_served(machine: Machine) -> None:
    """Raises AssertionError if a partition on a good disk is offline."""
    assert machine.server is not None
    assert isinstance(machine.disk, DiskArray)
    manager = machine.server.broker.log_manager
    for directory in manager.data_directories:
        member = machine.disk.at(directory.path)
        assert directory.failure is None or member.has_failed, f"{directory.path} is good, and {directory.failure}"
    good = {each.path for each in manager.data_directories if not machine.disk.at(each.path).has_failed}
    for partition in machine.server.broker.partitions:
        log = manager.get(partition.topic, partition.index)
        if log is not None and os.path.dirname(log.directory) in good:
            assert partition.offline is None, (
                f"{machine.host}: {partition.topic}-{partition.index}: {partition.offline}"
            )


def misplaced(world: World) -> list[Lagging]:
    """The replicas that are not in exactly one place, or not where the metadata say, and the moves and copies that are
    left.
    """
    found = []
    for host, machine in world.machines.items():
        if machine.server is None or not machine.is_started:
            found.append(Lagging(host))
            continue
        broker = machine.server.broker
        manager = broker.log_manager
        ids = {each.path: each.directory_id for each in manager.data_directories}
        if move := next(iter(manager.moves.moves.values()), None):
            found.append(Lagging(f"{host}: {move!r}"))
        names = [f"{path}/{name}" for path in ids for name in os.listdir(path)]
        if copies := [each for each in names if each.endswith("-future")]:
            found.append(Lagging(f"{host}: {copies}"))
        for topic in broker.image.topics:
            for index, each in topic.partitions.items():
                if node_of(host) not in each.replicas:
                    continue
                at = [os.path.dirname(path) for path in names if os.path.basename(path) == f"{topic.name}-{index}"]
                if len(at) != 1:
                    found.append(Lagging(f"{host}: {topic.name}-{index} is in {at}"))
                elif ids[at[0]] != directory_of(each, node_of(host)):
                    found.append(Lagging(f"{host}: {topic.name}-{index} is in {at[0]}, not where {each} say"))
    return found
