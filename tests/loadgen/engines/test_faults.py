"""The verification finds every fault that a proxy injects, with every producing engine, and reports nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from loadgen.scenario.profile import RateProfile
from tests.support.load_rig import Rig
from tests.support.produce_proxy import Fault, ProduceProxy, broker_behind

STAMPING = ("gevent", pytest.param("librdkafka", marks=pytest.mark.full))
MIXED: Mapping[int, Fault] = {2: "loss", 4: "duplicate", 7: "reorder", 15: "loss", 16: "duplicate", 20: "reorder"}


def plan(fault: Fault) -> Mapping[int, Fault]:
    return dict.fromkeys((0, 3, 9, 20), fault)


def rig(address: tuple[str, int], topic: str, engine: str) -> Rig:
    return Rig(address, topic, users=2, engine=engine, rate=RateProfile.constant(200))


@pytest.mark.parametrize("engine", STAMPING)
@pytest.mark.parametrize("faults", [plan("loss"), plan("duplicate"), plan("reorder"), MIXED])
def test_what_a_cluster_does_wrong_is_found(
    tmp_path: Path, topic: str, engine: str, faults: Mapping[int, Fault]
) -> None:
    """If this fails, a cluster that loses, repeats or reorders records passes a load test, or a sound one does not."""
    proxy = ProduceProxy(faults)
    with broker_behind(proxy, tmp_path) as address:
        load = rig(address, topic, engine)
        figures = load.run(1.5)
        assert proxy.is_done
        verification = load.verify()
        load.close()
    total = verification.total
    assert figures.failures == 0
    assert total.acknowledged == total.sent == figures.requests
    injected = {name: proxy.count(name) for name in ("lost", "duplicated", "reordered")}
    assert {name: getattr(total, name) for name in injected} == injected
    assert total.defects == sum(injected.values()) > 0
    for name in injected:
        for each in verification.examples(name):
            assert (each.partition, each.producer, each.sequence) in proxy.found[name]


@pytest.mark.parametrize("engine", [*STAMPING, "raw"])
def test_an_unknown_outcome_is_no_error(tmp_path: Path, topic: str, engine: str) -> None:
    """If this fails, every broken connection makes a correct cluster look as if it lost or invented records."""
    proxy = ProduceProxy({3: "unknown", 12: "unknown"}, by_batches=engine == "raw")
    with broker_behind(proxy, tmp_path) as address:
        load = rig(address, topic, engine)
        figures = load.run(1.5)
        assert proxy.is_done
        verification = load.verify()
        load.close()
    total = verification.total
    assert verification.is_good
    assert total.unknown_present >= proxy.count("unknown") > 0
    assert total.acknowledged == figures.requests
    assert figures.failures > 0


def test_a_loss_of_the_c_driver_is_found(tmp_path: Path, topic: str) -> None:
    """If this fails, the engine for volume, whose records have no stamps, cannot find losses."""
    proxy = ProduceProxy({5: "loss", 30: "loss", 60: "loss"}, by_batches=True)
    with broker_behind(proxy, tmp_path) as address:
        load = Rig(address, topic, engine="raw", records=7, rate=RateProfile.constant(100), options={"connections": 2})
        figures = load.run(2.0)
        assert proxy.is_done
        verification = load.verify()
        load.close()
    total = verification.total
    assert total.lost == total.defects == proxy.count("lost") == 21
    for each in verification.examples("lost"):
        assert each.by_batches
        assert (each.partition, -1 - each.producer, each.sequence) in proxy.found["lost"]
    # The broker refuses batches after a gap; the driver continues with another producer id.
    assert set(figures.errors) == {"OUT_OF_ORDER_SEQUENCE_NUMBER"}
    assert total.acknowledged == figures.records
