"""Operations on a cluster in service with playbooks, while clients work: restarts, upgrades, rollbacks, hosts that
join, leave and are lost. Durations are printed, not asserted; docs/deploy.md has the measured ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.deployed import BROKEN, NEW, Deployed, releases
from tests.deploy.lab import Lab
from tests.deploy.load import TOPIC, under_load
from tests.deploy.wheels import version
from tests.support.wait import until

pytestmark = [pytest.mark.soak, pytest.mark.serial, pytest.mark.timeout(1800)]
NAMES = ["n1", "n2", "n3"]


@pytest.fixture(scope="module")
def cluster(make_lab: Callable[..., Lab]) -> Deployed:
    """Three running hosts."""
    lab = make_lab("years", len(NAMES))
    releases(lab)
    deployed = Deployed(lab)
    deployed.set_up(NAMES)
    return deployed


def is_well(cluster: Deployed) -> None:
    """Check the cluster's health with the playbook that operators use."""
    assert "cluster: well" in cluster.play("health").output


def test_rolling_restart_is_not_seen_by_clients(cluster: Deployed, tmp_path: Path) -> None:
    """Each of three brokers is restarted, one at a time, and no application gets an error."""
    before = {name: cluster.started(name) for name in NAMES}
    with under_load(cluster.lab, cluster.config, cluster.bootstrap, tmp_path) as verdict:
        cluster.play("rolling_restart")
    print(verdict)
    verdict.check()
    assert all(cluster.started(name) != before[name] for name in NAMES)
    is_well(cluster)


def test_release_that_does_not_start_is_taken_back_on_the_first_host(cluster: Deployed, tmp_path: Path) -> None:
    """An upgrade to a broken release ends after the first host, which runs the old release again; the others are
    unchanged, and clients get no error.
    """
    before = {name: cluster.started(name) for name in NAMES}
    with under_load(cluster.lab, cluster.config, cluster.bootstrap, tmp_path) as verdict:
        played = cluster.play("upgrade", check=False, broker_version=BROKEN)
    print(verdict)
    verdict.check()
    assert played.code == 2, played.output[-3000:]
    touched = [name for name in NAMES if cluster.started(name) != before[name]]
    assert len(touched) == 1
    assert f"The previous release {version()} runs again" in played.output
    assert [cluster.release(name) for name in NAMES] == [version()] * 3
    (log,) = cluster.lab.inventory.parent.glob(f"failed/{touched[0]}.log")
    assert "broken on purpose" in log.read_text()
    is_well(cluster)


def test_upgrade_and_the_way_back_are_not_seen_by_clients(cluster: Deployed, tmp_path: Path) -> None:
    """All hosts get another release, one at a time, and then the previous one again."""
    steps: list[tuple[str, str, dict[str, Any]]] = [
        ("upgrade", NEW, {"broker_version": NEW}),
        ("rollback", version(), {}),
    ]
    for name, release, extra in steps:
        with under_load(cluster.lab, cluster.config, cluster.bootstrap, tmp_path) as verdict:
            cluster.play(name, **extra)
        print(verdict)
        verdict.check()
        assert [cluster.release(each) for each in NAMES] == [release] * 3
        is_well(cluster)


def test_host_that_was_lost_with_its_disks_is_replaced(cluster: Deployed, tmp_path: Path) -> None:
    """A machine is lost; a new, empty one takes its place under load, with its id, vote and replicas."""
    with under_load(cluster.lab, cluster.config, cluster.bootstrap, tmp_path) as verdict:
        cluster.lab.kill("n2")
        cluster.lab.wipe("n2")
        cluster.lab.start("n2")
        refused = cluster.play("rolling_restart", check=False, broker_gate_seconds=2)
        assert refused.code, "a cluster that lacks a broker is not restarted"
        cluster.play("replace_broker", broker_replace="n2")
    print(verdict)
    verdict.check()
    assert cluster.voters() == [1, 2, 3]
    is_well(cluster)


def test_fourth_host_comes_and_goes(cluster: Deployed, tmp_path: Path) -> None:
    """A host joins as a broker, gets replicas, and leaves again, without a lost record."""
    lab = cluster.lab
    lab.up(4)
    with under_load(lab, cluster.config, cluster.bootstrap, tmp_path) as verdict:
        cluster.write_inventory([*NAMES, "n4"])
        refused = cluster.play("add_broker", check=False)
        assert "would have 4 voters" in refused.output
        cluster.write_inventory([*NAMES, "n4"], {"n4": {"broker_controller": False}})
        cluster.play("add_broker")
        replicas = {each["broker_id"]: each["replicas"] for each in cluster.ask("brokers", "list")}
        assert replicas[4] > 0, replicas
        assert cluster.voters() == [1, 2, 3]
        is_well(cluster)
        cluster.play("decommission", broker_decommission="n4")
        assert [each["broker_id"] for each in cluster.ask("brokers", "list")] == [1, 2, 3]
        assert not cluster.is_active("n4")
        assert lab.ssh("n4", "sudo test -e /srv/data/broker-cy/meta.properties", check=False).returncode == 0
        cluster.write_inventory(NAMES)
        cluster.play("site")
    print(verdict)
    verdict.check()
    is_well(cluster)
    until(lambda: TOPIC in str(cluster.ask("topics", "list")), "the topic of the load")
