"""A host with 10 GB of records is lost with its disk and replaced: the duration is printed."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from broker_cy.launch.processes import run
from tests.deploy.cluster import ask
from tests.deploy.deployed import Deployed
from tests.deploy.host import Shape
from tests.deploy.lab import REPOSITORY, Lab
from tests.deploy.wheels import wheelhouse

pytestmark = [pytest.mark.soak, pytest.mark.serial, pytest.mark.timeout(3600)]
NAMES = ["n1", "n2", "n3"]
GIGABYTES, PARTITIONS = 10, 12
FILL_S = 1800.0


def test_a_host_with_ten_gigabytes_is_replaced(make_lab: Callable[..., Lab]) -> None:
    """If this fails, the replicas of a lost host are not restored. It needs 35 GB of free disk."""
    lab = make_lab("large", len(NAMES), Shape(disk="16G"))
    wheelhouse(lab)
    cluster = Deployed(lab)
    cluster.set_up(NAMES)
    ask(lab, "n1", "topics", "create", "large", "-p", str(PARTITIONS))
    what = ["large", str(PARTITIONS), str(GIGABYTES)]
    fill = lab.ctl(sys.executable, "-m", "tests.deploy.fill", cluster.config, cluster.bootstrap, *what)
    run(fill, timeout_s=FILL_S, cwd=REPOSITORY)
    lab.kill("n2")
    lab.wipe("n2")
    lab.start("n2")
    cluster.play("replace_broker", broker_replace="n2", what=f"a host with {GIGABYTES} GB replaced")
    held = int(lab.ssh("n2", "sudo du -s -B1 /srv/data/broker-cy | cut -f1").stdout)
    assert held >= GIGABYTES * 10**9
