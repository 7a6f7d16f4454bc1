"""The verdict on the generator. If it is wrong, users blame a cluster for the limits of the load generator, or do not
trust correct figures.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from loadgen.figures.totals import Totals
from loadgen.report import build, generator
from loadgen.report.result import Generator
from loadgen.scenario.model import Scenario, UserSpec
from loadgen.scenario.profile import RateProfile
from tests.support.load_results import Load, good_totals, interval, name_workers, scenario

PRODUCERS = Scenario("s", users=(UserSpec("producer", "p", 10, RateProfile.constant(200)),))
USUAL = Load(200, 2.0)


def totals_of(*seconds: tuple[Load, int], **others: Any) -> Totals:
    """One worker's seconds, with the load and the number of operations that waited for a user."""
    chance = random.Random(3)
    totals = Totals()
    for at, (load, queued) in enumerate(seconds, 1):
        totals.add("w", interval(at, {"Produce": load}, chance, queued=queued, **others))
    name_workers(totals)
    return totals


def judged(totals: Totals, of: Scenario = PRODUCERS) -> Generator:
    seconds = float(len(totals.series))
    return generator.judge(of, totals, build.workers_of(totals.workers.values(), seconds))


def test_a_quiet_run_is_the_clusters() -> None:
    """If this fails, every run is reported as limited by its generator."""
    found = judged(good_totals(10), scenario())
    assert found.reasons == ()
    assert all(each.value is not None and each.value <= each.most for each in found.checks)


@pytest.mark.parametrize(("cpu_s", "is_limit"), [(0.94, False), (0.96, True)])
def test_a_worker_without_cpu_to_spare_is_the_limit(cpu_s: float, is_limit: bool) -> None:
    """If this fails, a full core of the generator looks like a slow cluster."""
    found = judged(totals_of(*[(USUAL, 0)] * 3, cpu_s=cpu_s))
    assert found.is_limit is is_limit
    if is_limit:
        assert found.reasons == ("worker 0 used 0.96 of a core (at most 0.95)",)


@pytest.mark.parametrize(
    ("late_ms", "service_ms", "is_limit"),
    [
        (0.1, 0.2, False),  # a large part of the latency, but below 1 ms
        (1.0, 2.0, True),
        (1.0, 100.0, False),  # less than a tenth of the latency
        (30.0, 100.0, True),
    ],
)
def test_lateness_counts_if_it_is_a_part_of_the_latency(late_ms: float, service_ms: float, is_limit: bool) -> None:
    """If this fails, the generator's own delay is reported as the cluster's latency, or 0.1 ms of it spoils a run."""
    found = judged(totals_of(*[(Load(200, service_ms), 0)] * 3, late_ms=late_ms))
    assert found.is_limit is is_limit
    assert not is_limit or "late at p99 although a user was free" in found.reasons[0]


@pytest.mark.parametrize(("lag_ms", "is_limit"), [(10.0, False), (60.0, True)])
def test_an_event_loop_that_stands_is_the_limit(lag_ms: float, is_limit: bool) -> None:
    """If this fails, a blocked hub goes unnoticed."""
    assert judged(totals_of(*[(USUAL, 0)] * 3, lag_ms=lag_ms)).is_limit is is_limit


def test_too_few_users_are_the_generators_fault() -> None:
    """If this fails, a run with one user for 1,000 operations a second blames the cluster for seconds of waiting."""
    waits = Load(200, 2.0, waited_ms=800, waiting=1.0)
    worse = Load(200, 2.0, waited_ms=1600, waiting=1.0)
    found = judged(totals_of((USUAL, 0), (waits, 190), (worse, 190), (worse, 190)))
    assert found.is_limit
    assert "more users are needed" in found.reasons[0]
    # Also from the first second on, without an earlier second to compare with.
    assert judged(totals_of((waits, 190), (worse, 190), (worse, 190))).is_limit


def test_operations_that_were_never_sent_waited_too() -> None:
    """If this fails, a run that could not even begin a third of its operations passes."""
    waits = Load(200, 2.0, waited_ms=800, waiting=0.2)
    few = totals_of((USUAL, 0), (USUAL, 0), (waits, 12))
    assert judged(few).reasons == ()
    few.unsent_of = {"users": 300}
    assert judged(few).is_limit
    assert generator.scheduled(few) == 600 + 12 + 300
    # A cluster that is frozen at the end is itself the reason.
    frozen = totals_of((USUAL, 0), (USUAL, 0), (Load(200, 2.0, 1000, 0.9, slowest_ms=1000), 100))
    frozen.unsent_of = {"users": 300}
    assert judged(frozen).reasons == ()


def test_a_frozen_cluster_is_not_the_generators_fault() -> None:
    """If this fails, freezing a broker for a second ends with "the generator was the limit"."""
    thaw = Load(200, 2.0, waited_ms=1000, waiting=0.9, slowest_ms=1000)
    drains = Load(200, 2.0, waited_ms=600, waiting=0.9)
    drained = Load(200, 2.0, waited_ms=250, waiting=0.5)
    found = judged(totals_of((USUAL, 0), (Load(40, 2.0), 0), (thaw, 190), (drains, 190), (drained, 100), (USUAL, 0)))
    assert found.reasons == ()


def test_a_cluster_that_fails_is_not_the_generators_fault() -> None:
    """If this fails, a run against a cluster that refuses everything ends with "more users are needed"."""
    worse = [
        Load(200, 2.0, waited_ms=each, waiting=1.0, errors={"CONNECTION_FAILED": 50}) for each in (800, 1600, 2400)
    ]
    assert judged(totals_of((USUAL, 0), *[(each, 190) for each in worse])).reasons == ()
    few = [Load(200, 2.0, waited_ms=each, waiting=1.0, errors={"CONNECTION_FAILED": 5}) for each in (800, 1600, 2400)]
    assert judged(totals_of((USUAL, 0), *[(each, 190) for each in few])).is_limit


def test_waiting_that_a_stall_does_not_end_is_the_generators_fault() -> None:
    """If this fails, one slow answer excuses the lack of users for the rest of a run."""
    thaw = Load(200, 2.0, waited_ms=1000, waiting=0.9, slowest_ms=1000)
    waits = Load(200, 2.0, waited_ms=900, waiting=0.9)
    worse = Load(200, 2.0, waited_ms=1200, waiting=0.9)
    found = judged(totals_of((USUAL, 0), (thaw, 190), (waits, 190), *[(worse, 190), (waits, 190)] * 5))
    assert found.is_limit


def test_an_overloaded_cluster_is_not_the_generators_fault() -> None:
    """If this fails, the search for the highest rate always ends at the generator: beyond that rate, users wait."""
    slow = Load(200, 8.0, waited_ms=500, waiting=1.0)
    slower = Load(200, 9.0, waited_ms=1500, waiting=1.0)
    assert judged(totals_of((USUAL, 0), (USUAL, 0), (slow, 180), (slower, 180), (slower, 180))).reasons == ()


def test_a_few_that_wait_do_not_matter() -> None:
    """If this fails, single operations that wait for a user spoil a run."""
    waits = Load(200, 2.0, waited_ms=300, waiting=0.03)
    assert judged(totals_of((USUAL, 0), *[(waits, 6)] * 5)).reasons == ()


def test_a_lost_worker_is_a_lack_of_load() -> None:
    """If this fails, a run in which half of the load was missing passes."""
    totals = totals_of(*[(USUAL, 0)] * 4)
    chance = random.Random(4)
    totals.add("lost", interval(1, {"Produce": USUAL}, chance))
    totals.workers["lost"].lost, totals.workers["lost"].part = "no report for 3 s", 0.5
    found = judged(totals)
    assert found.reasons == ("worker 1 was lost (no report for 3 s), and with it 37.5% of the load",)


def test_a_run_without_operations_is_not_good() -> None:
    """If this fails, a run without operations ends with exit code 0."""
    assert judged(Totals()).reasons == ("no operation was performed",)
