"""The commands of docs/deploy.md and docs/deploy-bad-days.md, unchanged, on hosts of a lab.

broker1 to broker4 are n1 to n4, the monitoring host is n3 (a lab has few hosts), and `inventory/production` is the
lab's inventory. The test performs the manual steps between the commands (switch a host off, put an empty one in its
place). Migrations have a separate test (test_migration.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_cy.launch.processes import run
from tests.deploy.cluster import ask_json
from tests.deploy.lab import REPOSITORY, Lab
from tests.deploy.playbooks import COLLECTION, environment
from tests.deploy.wheels import version, wheelhouse
from tests.support.wait import until

pytestmark = [pytest.mark.soak, pytest.mark.serial, pytest.mark.timeout(3600)]

PAGES = {name: (REPOSITORY / "docs" / f"{name}.md").read_text() for name in ("deploy", "deploy-bad-days")}
# The release to which the page upgrades: the same code.
NEXT = "0.1.1"
WAIT_S, COMMAND_S = 120.0, 900.0
# Done by the fixtures of the tests: building the wheelhouse, the directory, the file of secrets.
PREPARED = ("make wheelhouse", "export PATH", "cd deploy/ansible", "cp -r inventory/example", "ansible-vault create")
ON_THE_CONTROL_NODE = ("ansible-playbook ", "ansible ")
ON_A_HOST = ("broker-cy ", "echo ")


def commands(page: str, heading: str) -> list[str]:
    """The command lines of a section. AssertionError if the section does not exist, or a line is not understood."""
    (section,) = [part for part in re.split(r"^##+ ", PAGES[page], flags=re.M) if part.startswith(heading)]
    found = [line for block in re.findall(r"```sh\n(.*?)```", section, re.S) for line in block.splitlines()]
    for line in found:
        known = (*PREPARED, *ON_THE_CONTROL_NODE, *ON_A_HOST, "export BROKER_CY_CLUSTERS")
        assert line.startswith(known), f"{page}, {heading}: what is {line}?"
    return [line for line in found if not line.startswith((*PREPARED, "export "))]


class Operator:
    """An operator who follows the pages."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.host = "n1"

    def write_inventory(self, brokers: int) -> None:
        names = [f"n{number}" for number in range(1, brokers + 1)]
        self.lab.write_inventory(
            {"brokers": names, "monitoring": ["n3"]},
            {"broker_version": version()},
            # The page keeps the number of voters odd.
            {"n4": {"broker_controller": False}} if brokers > 3 else {},
        )

    def do(self, line: str) -> str:
        """Run a line, and return its output."""
        print(f"$ {line}", flush=True)
        if line.startswith(ON_A_HOST):
            (export,) = set(re.findall(r"^export BROKER_CY_CLUSTERS.*$", "".join(PAGES.values()), re.M))
            return self.lab.ssh(self.host, f"sudo sh -c {_quoted(f'{export}; {line}')}").stdout
        line = line.replace("inventory/production", str(self.lab.inventory))
        line = re.sub(r"broker(\d)\.example\.com", r"n\1", line)
        env = {**os.environ, **environment(self.lab)}
        argv = self.lab.ctl("bash", "-c", line)
        return run(argv, cwd=COLLECTION, env=env, timeout_s=COMMAND_S).stdout.decode()

    def follow(self, page: str, heading: str) -> list[str]:
        """Carry out all lines of a section."""
        return [self.do(line) for line in commands(page, heading)]

    def brokers(self) -> dict[int, str]:
        return {each["broker_id"]: each["state"] for each in ask_json(self.lab, self.host, "brokers", "list")}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.fixture(scope="module")
def operator(make_lab: Callable[..., Lab]) -> Operator:
    """Empty hosts, the wheelhouse with two releases, and an inventory of three brokers."""
    lab = make_lab("documents", 4)
    wheelhouse(lab, versions=[NEXT])
    made = Operator(lab)
    made.write_inventory(3)
    return made


def test_from_nothing_to_the_first_alert(operator: Operator) -> None:
    """If this fails, a new user gets an error in the first hour."""
    said = operator.follow("deploy", "3. Install")
    assert any("hello" in each for each in said)
    stop, journal, start = commands("deploy", "4. Test the alerts")
    operator.do(stop)
    until(lambda: "firing" in operator.do(journal), "the alert", WAIT_S, 2.0)
    operator.do(start)
    until(lambda: set(operator.brokers().values()) == {"in service"}, "three brokers", WAIT_S, 1.0)


def test_the_years_after(operator: Operator) -> None:
    """If this fails, an upgrade, a rollback, a fourth host or new certificates do not work as on the page."""
    operator.follow("deploy", "Upgrades")
    operator.write_inventory(4)
    add, leave = commands("deploy", "Add and remove")
    operator.do(add)
    assert set(operator.brokers()) == {1, 2, 3, 4}
    operator.do(leave)
    assert set(operator.brokers()) == {1, 2, 3}
    operator.write_inventory(3)
    operator.follow("deploy", "Certificates")


def test_the_day_something_breaks(operator: Operator, tmp_path: Path) -> None:
    """If this fails, the page for bad days shows a command that makes an outage worse."""
    lab = operator.lab
    for heading in ("Introduction", "A full disk", "An expired certificate", "Support bundle"):
        for line in _introduction() if heading == "Introduction" else commands("deploy-bad-days", heading):
            operator.do(line)
    lab.wipe("n3")
    lab.start("n3")
    (replace, _) = commands("deploy-bad-days", "A lost host")
    operator.do(replace)
    until(lambda: set(operator.brokers().values()) == {"in service"}, "three brokers", WAIT_S, 1.0)


def _introduction() -> list[str]:
    first = PAGES["deploy-bad-days"].partition("\n## ")[0]
    found = [line for block in re.findall(r"```sh\n(.*?)```", first, re.S) for line in block.splitlines()]
    return [line for line in found if not line.startswith("export ")]
