"""The invariants of a broker's coordinators: their groups and transactions are consistent, and their state in memory is
the one that a start would find in the log.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.step import CoordinatorStep
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.txn.state import TxnState
from broker_cy.coordinator.txn.transaction_machine import TransactionMachine
from broker_cy.coordinator.txn.transaction_table import TransactionTable
from broker_cy.coordinator_services.coordinator_runtime import LoadState
from broker_cy.wire.records import decode_batches
from tests.broker_cy.coordinator.harness import durable
from tests.sim import streams_checks
from tests.sim.world.groups import LATE_US, SESSION_MS

if TYPE_CHECKING:
    from tests.sim.world.machine import Machine

READ_BYTES = 1 << 20
# After a request was due it may take so long until it is answered, if the broker runs.
DUE_LATE_MS = 100


def check_groups(machine: Machine) -> None:
    """Check the classic groups and the streams groups. Raises AssertionError."""
    assert machine.server is not None
    pending: set[tuple[str, str]] = set()
    for runtime in machine.server.broker.groups.runtimes.values():
        if runtime.state is LoadState.ACTIVE:
            for group in runtime.machine.classic_groups():
                _check_group(group)
                pending |= {(group.group_id, member_id) for member_id in group.pending_members}
            for other in runtime.machine.groups.values():
                if isinstance(other, StreamsGroup):
                    streams_checks.check_owners(other)
    _check_pending(machine, pending)


def check_waiting(machine: Machine) -> None:
    """Requests wait only for coordinators that are being loaded, or that another broker has as far as this one knows;
    and for records until they are due. Raises AssertionError.
    """
    assert machine.server is not None
    now_ms = machine.clock.given.monotonic() * 1000
    for service in (machine.server.broker.groups, machine.server.broker.transactions):
        for runtime in service.runtimes.values():
            if runtime.is_writing and runtime.state is LoadState.ACTIVE:
                waited_ms = max((_overdue_ms(step, now_ms) for step in runtime.unwritten()), default=0)
                assert waited_ms < DUE_LATE_MS, (
                    f"{machine.host}: requests to {service.topic}-{runtime.partition.index} were due {waited_ms} ms ago"
                )
        for index in service.waiters.keys() if len(service.waiters) else ():
            assert isinstance(index, int)
            waited_for = service.runtimes.get(index)
            assert waited_for is None or waited_for.state is LoadState.LOADING, (
                f"{machine.host}: requests wait for {service.topic}-{index}, which is {waited_for.state.value}"
            )


def _overdue_ms(step: CoordinatorStep, now_ms: float) -> float:
    """For how long the requests that wait for this step should have been answered."""
    return 0 if step.due_ms is None or step.is_late else now_ms - step.due_ms


def _check_group(group: ClassicGroup) -> None:
    members, name = group.members, group.group_id
    assert group.leader_id in members if members else group.leader_id is None, f"{name}: leader {group.leader_id}"
    waiting = sum(each.join_token is not None for each in members.values())
    assert group.waiting_joins == waiting, f"{name}: {waiting} joins wait, and {group.waiting_joins} are counted"
    assert group.pending_sync <= members.keys()
    assert not group.pending_members & members.keys()
    statics = {each.instance_id: each.member_id for each in members.values() if each.instance_id is not None}
    assert statics == group.static_members, f"{name}: static members {group.static_members}"
    assert members or group.state is not GroupState.STABLE, f"{name} is stable without members"


def _check_pending(machine: Machine, pending: set[tuple[str, str]]) -> None:
    """Member ids without a join are kept for a session."""
    known, now_us = machine.pending_since_us, machine.world.time.now_us
    for key in [key for key in known if key not in pending]:
        del known[key]
    for key in pending:
        since_us = known.setdefault(key, now_us)
        is_late = now_us - since_us > SESSION_MS * 1000 + LATE_US
        assert not is_late or not machine.is_calm_since(since_us), f"{key} has not joined, and its id is still reserved"


def check_transactions(machine: Machine) -> None:
    """Check that every open transaction will end. Raises AssertionError."""
    assert machine.server is not None
    for runtime in machine.server.broker.transactions.runtimes.values():
        if runtime.state is not LoadState.ACTIVE:
            continue
        state = runtime.machine
        ongoing = {key for key, each in state.transactions.items() if each.state is TxnState.ONGOING}
        assert ongoing == set(state.ongoing), f"{ongoing} are open, and {set(state.ongoing)} can time out"
        if _is_quiet(runtime):
            for each in state.transactions.values():
                is_open = each.state is TxnState.ONGOING or each.state.is_prepared
                assert is_open or not each.partitions, f"{each} is over, and has partitions"
            prepared = {key for key, each in state.transactions.items() if each.state.is_prepared}
            assert prepared == set(state.ending), f"{prepared} are decided, and {set(state.ending)} are being ended"
            for key, ending in state.ending.items():
                goes_on = ending.under_way or ending.fenced or state.timers.get(key) is not None
                assert goes_on, f"no marker, timer or fencing will end the transaction of {key}"


def is_ending(machine: Machine) -> bool:
    """Whether a transaction is decided on disk, and some of its markers are not written."""
    assert machine.server is not None
    return any(
        not runtime.is_writing and runtime.machine.ending
        for runtime in machine.server.broker.transactions.runtimes.values()
        if runtime.state is LoadState.ACTIVE
    )


def has_staged(machine: Machine) -> bool:
    """Whether records of a group coordinator are in the log, and not committed."""
    assert machine.server is not None
    return any(
        runtime.state is LoadState.ACTIVE and runtime.has_staged
        for runtime in machine.server.broker.groups.runtimes.values()
    )


def check_reloads(machine: Machine) -> None:
    """Compare the coordinators with their logs, unless a record is being written. Raises AssertionError."""
    assert machine.server is not None
    broker = machine.server.broker
    for groups in broker.groups.runtimes.values():
        if _is_quiet(groups):
            found = durable(_replayed(groups, GroupMachine(groups.machine.settings)))
            here = durable(groups.machine)
            assert found == here, f"a start would find {found} in {groups.partition.index} instead of {here}"
    for transactions in broker.transactions.runtimes.values():
        if _is_quiet(transactions):
            again = _replayed(transactions, TransactionMachine(transactions.machine.settings))
            found, here = _as_loaded(again), _as_loaded(transactions.machine)
            assert found == here, f"a start would find {found} in {transactions.partition.index} instead of {here}"


def _as_loaded(state: TransactionTable) -> dict[str, Any]:
    """Records do not contain the last epoch."""
    return {key: replace(each, last_producer_epoch=-1) for key, each in state.transactions.items()}


def _is_quiet(runtime: Any) -> bool:
    return runtime.state is LoadState.ACTIVE and not runtime.is_writing and runtime.partition.offline is None


def _replayed(runtime: Any, fresh: Any) -> Any:
    """`fresh`, after it was loaded from the partition as a start does it."""
    log = runtime.partition.log
    reader = copy(runtime)
    reader.machine = fresh
    at = log.log_start_offset
    while at < log.written_end_offset:
        part = log.read_slice(at, None, READ_BYTES, True)
        if part is None:
            break
        for batch in decode_batches(part.read()):
            reader._replay_batch(batch)
            at = batch.last_offset + 1
    return fresh
