"""The faults of the world. Each begins at its time and ends after its duration, or when the faults are over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_cy.core.errors import ErrorCode, KafkaError
from tests.sim.world import disks
from tests.sim.world.coordinators import check_reloads
from tests.sim.world.disk_array import FAILED, DiskArray, State
from tests.sim.world.disks import End
from tests.sim.world.jbod import check_soon
from tests.sim.world.machine import Machine
from tests.sim.world.plan import CLIENTS, EVERYBODY, NODES, ONE_NODE, OTHER_CLUSTER, Fault
from tests.support.power import Disk

if TYPE_CHECKING:
    from tests.sim.world.process import Program
    from tests.sim.world.world import World


# The time after the failure of a broker's data disk within which a client has tried to write to it, the controller has
# learned of the failure, and other brokers lead instead.
LEADS_US = 2_000_000


def begin(world: World, fault: Fault) -> None:
    world.note(f"fault: {fault}")
    if (process := world.processes.get(fault.host)) is not None:
        return _begin_at_process(world, process, fault)
    machine = world.machines[fault.host]
    machine.disturbed_until_us = max(machine.disturbed_until_us, world.time.now_us + fault.us)
    KINDS[fault.kind](world, machine, fault)
    return None


def _begin_at_process(world: World, process: Program, fault: Fault) -> None:
    """A process without a disk and without a clock that matters."""
    match fault.kind:
        case "kill":
            process.kill()
        case "stop":
            process.stop()
        case "pause":
            process.pause(fault.us)
        case "kill_in_commit":
            process.at_work(process.kill)
        case "stop_in_commit":
            process.at_work(process.stop)
        case "pause_in_commit":
            process.at_work(lambda: process.pause(fault.us))
        case _:
            # The functions for links need no machine.
            KINDS[fault.kind](world, next(iter(world.machines.values())), fault)


def end_all(world: World) -> None:
    """Repair everything, and start brokers that are down. Brokers with an offline partition are restarted."""
    for (source, target), link in world.network.links.items():
        # Over slow links an operator may remove a static member again and again before it makes progress.
        link.slow_us = 0
        if link.is_cut or link.loss:
            world.network.mend(source, target)
    _set_clocks(world)
    for machine in world.machines.values():
        # Brokers and clients detect lost connections later.
        machine.disturbed_until_us = world.time.now_us
        machine.paused_until_us = 0
        machine.when_ending = machine.when_in_flight = machine.when_leaving = None
        disks.stay_alive(machine.disk)
        disks.repair(machine.disk)
        if isinstance(machine.disk, DiskArray):
            _begin_again(machine, machine.disk)
            continue
        machine.start()
        machine.stop()
    for process in world.processes.values():
        process.go_on()


def _begin_again(machine: Machine, array: DiskArray) -> None:
    """Start a broker that is down, and restart one that may have found a failed disk. The others come to rest as they
    are, so that a start hides nothing.
    """
    if not machine.is_started:
        machine.end(End.KILLED)
        machine.start()
    elif any(each.has_failed for each in array.data):
        machine.stop()


def _set_clocks(world: World) -> None:
    """Set the wall clocks ahead of every time that they have shown, because transactions time out by them. The nodes of
    a cluster get the same time, because one node ends the transactions that another one began.
    """
    clocks = [machine.clock for machine in world.machines.values()]
    most_ms = max(clock.ahead_most_ms for clock in clocks)
    for clock in clocks:
        clock.catch_up(most_ms if world.plan.is_cluster else clock.ahead_most_ms)


def _kill(world: World, machine: Machine, fault: Fault) -> None:
    machine.end(End.KILLED)


def _lose_power(world: World, machine: Machine, fault: Fault) -> None:
    machine.end(End.POWER_LOST)


def _kill_controller(world: World, machine: Machine, fault: Fault) -> None:
    """End the active controller, or the host of the fault if there is none."""
    (machine.cluster.active_controller() or machine).end(End.KILLED)


def _kill_in_call(world: World, machine: Machine, fault: Fault) -> None:
    disks.die_at(machine.disk, fault.amount, End.KILLED)


def _lose_power_in_call(world: World, machine: Machine, fault: Fault) -> None:
    disks.die_at(machine.disk, fault.amount, End.POWER_LOST)


def _kill_ending(world: World, machine: Machine, fault: Fault) -> None:
    """End the process when a transaction is decided, and its markers are not all written."""
    machine.when_ending = lambda: machine.end(End.KILLED)


def _break_ending(world: World, machine: Machine, fault: Fault) -> None:
    """The same, for the disk."""

    def begin() -> None:
        machine.disturbed_until_us = max(machine.disturbed_until_us, world.time.now_us + fault.us)
        _break_disk(world, machine, fault)

    machine.when_ending = begin


def _fill_behind(world: World, machine: Machine, fault: Fault) -> None:
    """The disk is full as soon as the log has uncommitted records of a group coordinator: later writes fail."""

    def begin() -> None:
        machine.disturbed_until_us = max(machine.disturbed_until_us, world.time.now_us + fault.us)
        disks.fill(_only_disk(machine))
        _repair_later(world, machine, fault)

    machine.when_in_flight = begin


def _refuse_markers(world: World, machine: Machine, fault: Fault) -> None:
    """Markers of transactions fail: nothing was written, or the answer is lost. With several brokers links do that."""
    if machine.server is None or not machine.is_started:
        return
    markers, until_us, draw = machine.server.broker.txn_markers, world.time.now_us + fault.us, machine.draw
    right = markers._append

    def append(place: tuple[str, int], *more: Any) -> asyncio.Future[Any]:
        if world.time.now_us >= until_us or draw.chance(0.4):
            return right(place, *more)
        code = draw.choice([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR])
        if draw.chance(0.5):
            raise KafkaError(code)
        written, answer = right(place, *more), markers._loop.create_future()

        def lose(written: asyncio.Future[Any]) -> None:
            # Whether it was written or not does not matter.
            if not written.cancelled():
                written.exception()
            if not answer.done():
                answer.set_exception(KafkaError(code))
                # This exception is not a failure of the run if the process has ended and nothing awaits it.
                answer.exception()

        written.add_done_callback(lose)
        return answer

    markers._append = append  # type: ignore[assignment,method-assign]


def _stop(world: World, machine: Machine, fault: Fault) -> None:
    machine.stop()


def _pause(world: World, machine: Machine, fault: Fault) -> None:
    machine.pause(fault.us)


def _links(world: World, fault: Fault, *, up: bool, down: bool) -> list[tuple[str, str]]:
    """The links between the host of a fault and its clients, in a cluster also the other nodes: to it, from it."""
    host = fault.host
    if host in world.processes:
        return _links_of_process(world, fault, up=up, down=down)
    machine = world.machines[host]
    clients = [name for name, of in world.plan.clients if of == host]
    if world.plan.is_cluster:
        nodes = [each for each in machine.cluster.machines if each != host]
        others = [each for each in world.machines if each not in machine.cluster.machines]
        clients = [*(name for name, _ in world.plan.clients), *world.processes]
        clients = {
            EVERYBODY: nodes + others + clients,
            NODES: nodes,
            ONE_NODE: [nodes[fault.at_us % len(nodes)]] if nodes else others,
            CLIENTS: clients,
            OTHER_CLUSTER: others,
        }[fault.amount if fault.kind != "loss" else EVERYBODY]
    return [(name, host) for name in clients if up] + [(host, name) for name in clients if down]


def _links_of_process(world: World, fault: Fault, *, up: bool, down: bool) -> list[tuple[str, str]]:
    """The links between a process and all brokers, those of the source or of the target, or one of them."""
    sides = [list(cluster.machines) for cluster in world.clusters.values()]
    every, sources, targets = [each for side in sides for each in side], sides[0], sides[-1]
    hosts = {
        EVERYBODY: every,
        NODES: sources,
        ONE_NODE: [every[fault.at_us % len(every)]],
        OTHER_CLUSTER: targets,
    }[fault.amount if fault.kind != "loss" else EVERYBODY]
    return [(fault.host, each) for each in hosts if down] + [(each, fault.host) for each in hosts if up]


def _cut_links(world: World, fault: Fault, *, up: bool, down: bool) -> None:
    # All clients, or one of them.
    links = _links(world, fault, up=up, down=down)
    if fault.at_us % 2 and not world.plan.is_cluster:
        links = [links[fault.at_us % len(links)]]
    for source, target in links:
        world.network.link(source, target).is_cut = True

    def mend() -> None:
        for source, target in links:
            world.network.mend(source, target)

    world.at(world.time.now_us + fault.us, mend)


def _cut(world: World, machine: Machine, fault: Fault) -> None:
    _cut_links(world, fault, up=True, down=True)


def _cut_up(world: World, machine: Machine, fault: Fault) -> None:
    _cut_links(world, fault, up=True, down=False)


def _cut_down(world: World, machine: Machine, fault: Fault) -> None:
    _cut_links(world, fault, up=False, down=True)


def _loss(world: World, machine: Machine, fault: Fault) -> None:
    links = _links(world, fault, up=True, down=True)
    for source, target in links:
        world.network.link(source, target).loss = fault.amount / 100

    def mend() -> None:
        for source, target in links:
            world.network.mend(source, target)

    world.at(world.time.now_us + fault.us, mend)


def _delay(world: World, machine: Machine, fault: Fault) -> None:
    for source, target in _links(world, fault, up=True, down=True):
        world.network.link(source, target).slow_us = min(fault.us, 300_000)


def _set_clock(world: World, machine: Machine, fault: Fault) -> None:
    machine.clock.set_ahead(fault.amount)


def _break_disk(world: World, machine: Machine, fault: Fault) -> None:
    disks.break_down(_only_disk(machine))
    _repair_later(world, machine, fault)


def _only_disk(machine: Machine) -> Disk:
    assert isinstance(machine.disk, Disk), "one of several disks fails by FAIL_DISK"
    return machine.disk


def _repair_later(world: World, machine: Machine, fault: Fault) -> None:
    def repair() -> None:
        disks.repair(machine.disk)
        if machine.is_started:
            # Records that could not be written must not appear anywhere.
            check_reloads(machine)

    world.at(world.time.now_us + fault.us, repair)


def _lose_data_disk(world: World, machine: Machine, fault: Fault) -> None:
    """The data disk fails, and the disk of the metadata log does not. Other brokers must lead soon."""
    disks.die(_only_disk(machine), machine.data)
    until_us = world.time.now_us + fault.us
    others = {other: other.ends for other in world.machines.values() if other is not machine and other.is_started}

    def check() -> None:
        # Only a majority of the nodes, which are all controllers, can elect other leaders.
        running = sum(other.ends == ends for other, ends in others.items())
        if world.time.now_us < until_us and not world.recovers and running > len(world.machines) // 2:
            machine.cluster.check_leads_nothing(machine)

    def repair() -> None:
        if not world.recovers:
            disks.repair(machine.disk)

    world.at(world.time.now_us + LEADS_US, check)
    world.at(until_us, repair)


def _fail_disk(world: World, machine: Machine, fault: Fault) -> None:
    """One of several data disks fails; the process notices that when it uses the disk. It works again after the time of
    the fault, which helps only the next process if the directory is offline by then.
    """
    assert isinstance(machine.disk, DiskArray)
    member = machine.disk.data[fault.amount % len(machine.disk.data)]
    others = [each for each in machine.disk.data if each is not member and each.state in FAILED]
    if len(others) + 1 >= len(machine.disk.data) or member.state is not State.GOOD:
        # The last disk of a node: the node would end.
        return
    state = STATES[fault.amount // 10 % len(STATES)]
    name = f"{machine.host}: {os.path.basename(member.root)}"
    world.note(f"{name} is {state.value}")
    member.become(state)
    member.on_refused = lambda: check_soon(world, machine, member)

    def repair() -> None:
        if not world.recovers and member.state is state:
            world.note(f"{name} is repaired")
            member.become(State.GOOD)

    world.at(world.time.now_us + fault.us, repair)


def _replace_disk(world: World, machine: Machine, fault: Fault) -> None:
    """One of several data disks dies, and soon the process starts with an empty one."""
    assert isinstance(machine.disk, DiskArray)
    member = machine.disk.data[fault.amount % len(machine.disk.data)]
    if any(each is not member and each.state in FAILED for each in machine.disk.data):
        return
    member.become(State.DEAD)
    member.on_refused = lambda: check_soon(world, machine, member)

    def exchange() -> None:
        if not world.recovers:
            member.become(State.GOOD)
            member.is_replaced = True
            if machine.server is None:
                with disks.use(None):
                    machine.fit_disks()
            else:
                machine.end(End.KILLED)

    world.at(world.time.now_us + fault.us, exchange)


# Each as often as it is here.
STATES = (State.DEAD, State.DEAD, State.GONE, State.READ_ONLY, State.FULL, State.SLOW, State.BROKEN)
KINDS: dict[str, Callable[[World, Machine, Fault], None]] = {
    "kill": _kill,
    "kill_in_call": _kill_in_call,
    "kill_controller": _kill_controller,
    "kill_ending": _kill_ending,
    "break_ending": _break_ending,
    "fill_behind": _fill_behind,
    "refuse_markers": _refuse_markers,
    "lose_power": _lose_power,
    "lose_power_in_call": _lose_power_in_call,
    "stop": _stop,
    "pause": _pause,
    "cut": _cut,
    "cut_up": _cut_up,
    "cut_down": _cut_down,
    "loss": _loss,
    "delay": _delay,
    "set_clock": _set_clock,
    "break_disk": _break_disk,
    "lose_data_disk": _lose_data_disk,
    "fail_disk": _fail_disk,
    "replace_disk": _replace_disk,
}
