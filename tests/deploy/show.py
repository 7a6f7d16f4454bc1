"""From nothing to a cluster that serves, on lab hosts on this machine: `make lab`.

The lab stays, and the last lines say how to use it; `make lab ARGS=--destroy` removes it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.deploy.base import LabError, missing
from tests.deploy.cluster import produce_and_consume
from tests.deploy.lab import Lab
from tests.deploy.playbooks import COLLECTION, environment
from tests.deploy.wheels import version, wheelhouse

NAME = "show"


def main(argv: Sequence[str] | None = None) -> int:
    """Set the cluster up, or remove it; the result is the exit code."""
    parser = argparse.ArgumentParser(prog="make lab", description=__doc__)
    parser.add_argument("--hosts", type=int, default=3, help="how many brokers (default: %(default)s)")
    parser.add_argument("--services", action="store_true", help="dashboard and monitoring on the first host as well")
    parser.add_argument("--destroy", action="store_true", help="only remove the lab")
    given = parser.parse_args(argv)
    reason = missing()
    if reason:
        print(f"make lab: {reason}", file=sys.stderr)
        return 1
    lab = Lab(NAME)
    lab.destroy()
    if given.destroy:
        return 0
    try:
        return _show(lab, given.hosts, given.services)
    except LabError as error:
        print(f"make lab: {error}", file=sys.stderr)
        return 1


def _show(lab: Lab, count: int, services: bool) -> int:
    lab.up(count)
    groups = {"brokers": [host.name for host in lab.hosts]}
    if services:
        groups |= {"dashboards": ["n1"], "monitoring": ["n1"]}
    lab.write_inventory(groups, {"broker_version": version()})
    wheelhouse(lab, ["dashboard"] if services else [])
    start = time.monotonic()
    site = lab.ctl("ansible-playbook", "-i", lab.inventory, "playbooks/site.yml")
    code = subprocess.run(site, cwd=COLLECTION, env=environment(lab), check=False).returncode
    if code:
        return code
    produce_and_consume(lab, "n1", f"n{count}")
    print(f"\nFrom empty hosts to records that were produced and consumed: {time.monotonic() - start:.0f} s.")
    lab_words = f"{sys.executable} -m tests.deploy.lab --name {NAME}"
    print(f"A host:     {lab_words} ssh n1 systemctl status broker-cy")
    print(f"A playbook: (cd deploy/ansible && PYTHONPATH=../.. {lab_words} ctl ansible-playbook -i {lab.inventory} \\")
    print("            playbooks/health.yml)")
    print("The end:    make lab ARGS=--destroy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
