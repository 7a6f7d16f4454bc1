"""The whole broker in one simulated world: no seed finds anything, a seed is replayed exactly, and planted defects are
found. docs/simulation.md says how it works.

`make test` runs few seeds, and looks for each planted defect where it was found last; `make test-all` runs more.
`WORLD_SEEDS=5000 python -m pytest tests/sim/test_world.py -k seeds` runs more; `python -m tests.sim.world --first SEED`
repeats one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim.defects import MISFITS, must_find, seeds_of
from tests.sim.world.cluster_planted import CLUSTER_PLANTED
from tests.sim.world.consumer_planted import CONSUMER_PLANTED
from tests.sim.world.fault_defects import FAULT_SEEDS, ONLY
from tests.sim.world.faults import KINDS
from tests.sim.world.jbod_planted import JBOD_PLANTED
from tests.sim.world.plan import (
    CLUSTER,
    CLUSTER_CONSUMERS,
    CLUSTER_DATA_DISKS,
    CLUSTER_DISKS,
    CLUSTER_JBOD,
    CLUSTER_ROLES,
    CLUSTER_SECURED,
    CLUSTER_SHARES,
    CLUSTER_SNAPSHOTS,
    CLUSTER_STREAMS,
    CLUSTER_UNCLEAN,
    CLUSTER_VOTERS,
    EVERYTHING,
    NAMES,
    PROFILES,
    Fault,
    Plan,
    plan_of,
)
from tests.sim.world.planted import PLANTED, Planted
from tests.sim.world.run import GARBAGE_OBJECTS, Result, collecting_seldom, run_plan, run_seed, shrink
from tests.sim.world.share_planted import SHARE_PLANTED
from tests.sim.world.slow import tiered
from tests.sim.world.streams_planted import STREAMS_PLANTED
from tests.support import needs
from tests.support.tiers import by_tier

ROOT = Path(__file__).resolve().parents[2]
SEEDS = int(os.environ.get("WORLD_SEEDS", by_tier("15", "200")))
FIRST_SEED = int(os.environ.get("WORLD_FIRST_SEED", "0"))
SOAK_SEEDS = int(os.environ.get("WORLD_SEEDS", "20000"))
# The seeds are divided into parts so that test workers can share them.
PARTS = min(5, SEEDS)
# The seeds of each profile other than that of the whole world.
PROFILE_SEEDS = max(2, SEEDS // 20)
# The seeds of the profile `cluster`, in which three nodes run.
CLUSTER_SEEDS = int(os.environ.get("WORLD_CLUSTER_SEEDS", by_tier("8", "200")))
CLUSTER_SOAK_SEEDS = int(os.environ.get("WORLD_CLUSTER_SEEDS", "20000"))
CLUSTER_PARTS = min(CLUSTER_SEEDS, max(4, CLUSTER_SEEDS // 10))
# The other profiles of clusters, and the seeds of each.
OTHER_CLUSTERS = (
    CLUSTER_DISKS,
    CLUSTER_ROLES,
    CLUSTER_VOTERS,
    CLUSTER_UNCLEAN,
    CLUSTER_SECURED,
    CLUSTER_DATA_DISKS,
    CLUSTER_JBOD,
    CLUSTER_SNAPSHOTS,
    CLUSTER_CONSUMERS,
    CLUSTER_SHARES,
    CLUSTER_STREAMS,
)
OTHER_CLUSTER_SEEDS = max(1, min(by_tier(1, 10), CLUSTER_SEEDS))
# The profile `cluster-jbod`, which has the faults of all disks, and a seed takes 2 s.
JBOD_SEEDS = max(1, min(by_tier(1, 40), CLUSTER_SEEDS))
# The profiles `cluster-consumers`, `cluster-shares` and `cluster-streams`.
GROUP_SEEDS = max(1, min(by_tier(1, 20), CLUSTER_SEEDS))
# One in so many seeds runs twice.
TWICE_EVERY = 100
# In the profile `cluster`, the first so many seeds run twice.
CLUSTER_TWICE = by_tier(1, 3)
SOAK_TIMEOUT_S = 4 * 3600
# `make soak` runs so many seeds per test; each test has a time limit.
SOAK_PART = 2000

pytestmark = needs.memory


def fail(result: Result, profile: str) -> None:
    """Fail with the smallest plan that fails in the same way."""
    assert result.failure is not None
    smallest = shrink(result)
    assert smallest.failure is not None
    smallest.failure.add_note(f"repeat: python -m tests.sim.world --profile {profile} --first {result.plan.seed}")
    smallest.failure.add_note(f"smallest plan: {smallest.plan.to_json()}")
    raise smallest.failure


@pytest.fixture(autouse=True)
def garbage_is_collected_seldom() -> Iterator[None]:
    with collecting_seldom():
        yield


def run_seeds(first: int, count: int, profile: str = EVERYTHING) -> None:
    began_s, steps, virtual_s, acked, reads = time.process_time(), 0, 0.0, 0, 0
    for seed in range(first, first + count):
        result = run_seed(seed, profile)
        if result.failure is not None:
            fail(result, profile)
        steps += result.steps
        virtual_s += result.virtual_s
        acked += result.acked
        reads += result.reads
    assert acked > 0
    # The runs were not idle. The two consumers at the end read all remaining records. These may be less than half of
    # the acknowledged ones: topics are deleted, trimmed and compacted. In some profiles, the only other readers are
    # members, which share the partitions.
    assert reads > acked // 4, f"{acked} records were acknowledged, and {reads} read"
    took_s = time.process_time() - began_s
    print(
        f"{count} seeds, {acked} records acknowledged, {reads} read; a core: {count / took_s * 3600:,.0f} seeds/h, "
        f"{steps / took_s:,.0f} steps/s, {virtual_s / took_s:.1f} simulated s/s"
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_finds_anything(part: int) -> None:
    """If this fails, clients lose acknowledged records, read records that they must not see, or hang after faults."""
    first, end = (FIRST_SEED + SEEDS * at // PARTS for at in (part, part + 1))
    run_seeds(first, end - first)


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != EVERYTHING])
def test_no_seed_of_a_profile_finds_anything(profile: str) -> None:
    """The same, with the clients and faults that reach the rare states of one part of the broker."""
    run_seeds(FIRST_SEED, PROFILE_SEEDS, profile)


@pytest.mark.parametrize("part", range(CLUSTER_PARTS))
def test_no_seed_of_a_cluster_finds_anything(part: int) -> None:
    """If this fails, three nodes lose acknowledged records, have two leaders, or do not get in sync after faults."""
    first, end = (FIRST_SEED + CLUSTER_SEEDS * at // CLUSTER_PARTS for at in (part, part + 1))
    run_seeds(first, end - first, CLUSTER)


def test_no_seed_of_a_cluster_with_a_broken_disk_finds_anything() -> None:
    """The same, while the disk of one node fails: the others lose nothing, and it comes back."""
    run_seeds(FIRST_SEED, OTHER_CLUSTER_SEEDS, CLUSTER_DISKS)


def test_no_seed_of_a_cluster_whose_data_disk_dies_finds_anything() -> None:
    """If this fails, a broker whose metadata log is on another disk leads partitions on a failed disk, or clients lose
    records when other brokers take over.
    """
    run_seeds(FIRST_SEED, OTHER_CLUSTER_SEEDS, CLUSTER_DATA_DISKS)


def test_no_seed_of_a_cluster_with_several_disks_finds_anything() -> None:
    """If this fails, a disk that dies takes others with it or is led on, a move between disks loses records, or a
    replica is in two places, or where the metadata do not say.
    """
    run_seeds(FIRST_SEED, JBOD_SEEDS, CLUSTER_JBOD)


def test_no_seed_of_a_cluster_with_controllers_of_its_own_finds_anything() -> None:
    """If this fails, brokers without the controller role do not find the active controller again, or lose records."""
    run_seeds(FIRST_SEED, OTHER_CLUSTER_SEEDS, CLUSTER_ROLES)


def test_no_seed_of_a_cluster_whose_voters_change_finds_anything() -> None:
    """If this fails, metadata is lost or differs while controllers are added, removed and get other disks. Or the
    quorum has no leader, or other voters than it reported to its operator.
    """
    run_seeds(FIRST_SEED, OTHER_CLUSTER_SEEDS, CLUSTER_VOTERS)


def test_no_seed_of_a_cluster_with_unclean_elections_finds_anything() -> None:
    """If this fails, replicas differ, have duplicate records or cannot be read after unclean elections of one topic; or
    another topic has lost records.
    """
    run_seeds(FIRST_SEED, OTHER_CLUSTER_SEEDS, CLUSTER_UNCLEAN)


def test_no_seed_of_a_cluster_with_logins_and_acls_finds_anything() -> None:
    """If this fails, a broker applies replaced ACLs or removed quotas, or serves a client without a login or with an
    expired token. Or the nodes of a cluster that must log in do not find each other again.
    """
    run_seeds(FIRST_SEED, OTHER_CLUSTER_SEEDS, CLUSTER_SECURED)


def test_no_seed_of_a_cluster_with_small_metadata_logs_finds_anything() -> None:
    """If this fails, metadata is lost or differs when a snapshot replaces the beginning of the metadata log. Or a node
    that needs the leader's snapshot does not come back, or the deletion of old metadata blocks the event loop.
    """
    run_seeds(FIRST_SEED, OTHER_CLUSTER_SEEDS, CLUSTER_SNAPSHOTS)


def test_no_seed_of_a_cluster_with_consumer_groups_finds_anything() -> None:
    """If this fails, two members of a consumer group read one partition, commits of a member are lost or refused, or a
    member is dropped within its session, when the coordinator moves. Or a partition stays without a reader.
    """
    run_seeds(FIRST_SEED, GROUP_SEEDS, CLUSTER_CONSUMERS)


def test_no_seed_of_a_cluster_with_share_groups_finds_anything() -> None:
    """If this fails, a share group gets a record again after its acknowledgement was answered, passes records that
    are not settled, or does not settle all of them, when leaders and coordinators move.
    """
    run_seeds(FIRST_SEED, GROUP_SEEDS, CLUSTER_SHARES)


def test_no_seed_of_a_cluster_with_streams_groups_finds_anything() -> None:
    """If this fails, two threads of an application process one task, epochs go back, commits of a thread are lost or
    refused, or a task stays without a thread, when the coordinator moves or topics change.
    """
    run_seeds(FIRST_SEED, GROUP_SEEDS, CLUSTER_STREAMS)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
@pytest.mark.parametrize("first", range(0, SOAK_SEEDS, SOAK_PART))
def test_many_seeds_find_nothing(first: int) -> None:
    """The same, for rare combinations of faults."""
    run_seeds(FIRST_SEED + first, min(SOAK_PART, SOAK_SEEDS - first))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
@pytest.mark.parametrize("profile", [name for name in PROFILES if name not in (EVERYTHING, CLUSTER)])
def test_many_seeds_of_a_profile_find_nothing(profile: str) -> None:
    """The same, for the rare states of one part of the broker."""
    run_seeds(FIRST_SEED, min(SOAK_PART, SOAK_SEEDS), profile)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
@pytest.mark.parametrize("first", range(0, CLUSTER_SOAK_SEEDS, SOAK_PART))
def test_many_seeds_of_a_cluster_find_nothing(first: int) -> None:
    """The same, for clusters."""
    run_seeds(FIRST_SEED + first, min(SOAK_PART, CLUSTER_SOAK_SEEDS - first), CLUSTER)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
@pytest.mark.parametrize("profile", OTHER_CLUSTERS)
def test_many_seeds_of_other_clusters_find_nothing(profile: str) -> None:
    """The same, for the other profiles of clusters."""
    run_seeds(FIRST_SEED, min(SOAK_PART, CLUSTER_SOAK_SEEDS), profile)


def digests(hash_seed: int, seed: int, count: int, profile: str, garbage: int = GARBAGE_OBJECTS) -> str:
    """The digests of all draws and events of some seeds, in a process with this seed of str hashes, which collects
    garbage whenever there are `garbage` more objects; 0: never.
    """
    command = [sys.executable, "-m", "tests.sim.world", "--digests", "--first", str(seed), "--count", str(count)]
    command += ["--profile", profile, "--garbage", str(garbage)]
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return "\n".join(line for line in done.stdout.splitlines() if " seeds " not in line)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS, TWICE_EVERY))
def test_a_seed_is_replayed_exactly(seed: int) -> None:
    """If this fails, a failing seed cannot be found again: something in the broker depends on the real time, on the
    addresses of objects or on the order of a set.
    """
    is_replayed(seed, by_tier(1, 3), EVERYTHING)


@pytest.mark.full
@pytest.mark.parametrize("profile", [name for name in PROFILES if name not in (EVERYTHING, CLUSTER)])
def test_a_seed_of_a_profile_is_replayed_exactly(profile: str) -> None:
    """The same, for the clients and faults of each profile."""
    is_replayed(FIRST_SEED, 1, profile)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
@pytest.mark.parametrize("profile", [EVERYTHING, CLUSTER])
def test_each_hundredth_seed_is_replayed_exactly(profile: str) -> None:
    """The same, for one of a hundred of the seeds of `make soak`."""
    for seed in range(FIRST_SEED, FIRST_SEED + SOAK_SEEDS, TWICE_EVERY):
        is_replayed(seed, 1, profile)


def is_replayed(seed: int, count: int, profile: str) -> None:
    first, again = digests(1, seed, count, profile), digests(2, seed, count, profile)
    assert len(first.splitlines()) == count
    assert first == again


@pytest.mark.parametrize("garbage", [pytest.param(0, marks=pytest.mark.full), by_tier(300, 30)])
def test_seeds_of_a_cluster_are_replayed_exactly(garbage: int) -> None:
    """The same, for messages between nodes, and for orders that depend on object addresses."""
    first = digests(1, FIRST_SEED, CLUSTER_TWICE, CLUSTER)
    again = digests(2, FIRST_SEED, CLUSTER_TWICE, CLUSTER, garbage)
    assert len(first.splitlines()) == CLUSTER_TWICE
    assert first == again


@pytest.mark.full
@pytest.mark.parametrize("profile", OTHER_CLUSTERS)
def test_a_seed_of_another_cluster_is_replayed_exactly(profile: str) -> None:
    """The same, for behaviours that only the other profiles of clusters have."""
    is_replayed(FIRST_SEED, 1, profile)


def must_be_found(name: str, planted: Planted, patch: pytest.MonkeyPatch) -> None:
    """Fail the test unless one of the seeds finds the defect."""

    def run(seed: int) -> None:
        failure = run_plan(planted.plan(seed)).failure
        if failure is not None:
            raise failure

    must_find(planted.plant, run, patch, planted.seeds, first=planted.first, key=f"world: {name}")


@pytest.mark.parametrize("name", tiered(PLANTED))
def test_the_world_finds_planted_defects(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the world passes whatever the broker does."""
    must_be_found(name, PLANTED[name], monkeypatch)


@pytest.mark.parametrize("name", tiered(CLUSTER_PLANTED))
def test_clusters_find_planted_defects(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for behaviours that only several nodes have."""
    must_be_found(name, CLUSTER_PLANTED[name], monkeypatch)


@pytest.mark.parametrize("name", tiered(JBOD_PLANTED))
def test_clusters_find_planted_defects_of_several_disks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for machines with several data disks."""
    must_be_found(name, JBOD_PLANTED[name], monkeypatch)


@pytest.mark.parametrize("name", tiered(CONSUMER_PLANTED))
def test_the_world_finds_planted_defects_of_consumer_groups(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for members of the consumer protocol."""
    must_be_found(name, CONSUMER_PLANTED[name], monkeypatch)


@pytest.mark.parametrize("name", tiered(SHARE_PLANTED))
def test_the_world_finds_planted_defects_of_share_groups(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for members of share groups."""
    must_be_found(name, SHARE_PLANTED[name], monkeypatch)


@pytest.mark.parametrize("name", tiered(STREAMS_PLANTED))
def test_the_world_finds_planted_defects_of_streams_groups(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for threads of streams applications."""
    must_be_found(name, STREAMS_PLANTED[name], monkeypatch)


@pytest.mark.parametrize("kind", tiered(KINDS))
def test_each_kind_of_fault_finds_a_defect(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a kind of fault reaches nothing that a world without it does not reach."""
    only = ONLY[kind]
    key = f"world, kind of fault: {kind}"
    plans = {seed: only.plans(kind, seed) for seed in seeds_of(key, only.first, FAULT_SEEDS)}
    assert {fault.kind for with_it, _ in plans.values() for fault in with_it.faults} == {kind}

    def run(seed: int) -> None:
        with_it, without = plans[seed]
        failure = run_plan(with_it).failure if with_it.faults else None
        # A seed that finds the defect also without the kind shows nothing of it.
        if failure is not None and (isinstance(failure, MISFITS) or run_plan(without).failure is None):
            raise failure

    must_find(only.planted.plant, run, monkeypatch, FAULT_SEEDS, first=only.first, key=key)


def test_a_failing_plan_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a failure has to be understood from a dozen faults and as many clients."""
    name = "a stop waits for ever"
    planted = PLANTED[name]
    planted.plant(monkeypatch)
    seeds = seeds_of(f"world: {name}", planted.first, planted.seeds)
    found = next(result for seed in seeds if (result := run_seed(seed)).failure is not None)
    smallest = shrink(found)
    assert smallest.signature == found.signature
    # The broker is stopped in the end in any case, so that neither faults nor clients are needed.
    assert len(found.plan.faults) + len(found.plan.workers) > 3
    assert len(smallest.plan.faults) + len(smallest.plan.workers) <= 1
    assert smallest.plan.duration_us <= found.plan.duration_us
    again = run_plan(Plan.from_json(smallest.plan.to_json()))
    assert again.digest == smallest.digest
    assert again.signature == found.signature


def test_a_plan_is_data() -> None:
    """If this fails, a plan that was kept is another one when it is read."""
    plan = plan_of(7)
    assert Plan.from_json(plan.to_json()) == plan
    assert plan_of(7) == plan != plan_of(8)
    assert len({plan_of(7, profile).to_json() for profile in NAMES}) == len(NAMES)
    for profile in (CLUSTER, *(each for each in OTHER_CLUSTERS if each != CLUSTER_DISKS)):
        assert Plan.from_json(plan_of(7, profile).to_json()) == plan_of(7, profile) != plan_of(7, CLUSTER_DISKS)
    fewer = plan.without_workers({0})
    assert fewer.clients == (plan.clients[0], *plan.clients[2:])
    assert Fault(1, "kill", "broker1") not in plan.without_faults(set(range(len(plan.faults)))).faults
