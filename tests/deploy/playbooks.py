"""Runs playbooks on the hosts of a lab, as an operator on the control node does, and reads their recap."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from broker_cy.launch.processes import run
from tests.deploy.lab import REPOSITORY, Lab

COLLECTION = REPOSITORY / "deploy" / "ansible"
# A play of minutes takes several times as long on a machine that also runs other tests.
PLAY_S = 2400.0
# One line of the recap: the host and its counts.
_RECAP = re.compile(r"^(\S+)\s+: (ok=\d+.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Recap:
    """The result of a playbook run: its exit code, output and duration, and the counts of each host
    (`ok`, `changed`, `unreachable`, `failed`, `skipped`, `rescued`, `ignored`).
    """

    code: int
    output: str
    seconds: float
    hosts: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        """How many tasks changed something, on all hosts."""
        return sum(counts["changed"] for counts in self.hosts.values())

    @property
    def failed(self) -> int:
        """How many tasks failed, or found their host unreachable."""
        return sum(counts["failed"] + counts["unreachable"] for counts in self.hosts.values())


def environment(lab: Lab) -> dict[str, str]:
    """Ansible's environment variables for a lab: files of other runs and of the user are neither read nor written."""
    return {
        **lab.environment(),
        "ANSIBLE_CONFIG": str(COLLECTION / "ansible.cfg"),
        "ANSIBLE_HOME": str(lab.directory / "ansible"),
        "ANSIBLE_LOG_PATH": str(log(lab)),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }


def log(lab: Lab) -> Path:
    """The file with all of Ansible's output in this lab."""
    return lab.directory / "ansible.log"


def play(
    lab: Lab,
    playbook: str,
    *arguments: str,
    check: bool = True,
    timeout_s: float = PLAY_S,
    inventory: Path | None = None,
) -> Recap:
    """Run playbooks/`playbook` with further arguments of ansible-playbook. If it fails and `check` is set, this raises
    AssertionError with the end of its output.
    """
    path = COLLECTION / "playbooks" / playbook
    argv = lab.ctl("ansible-playbook", "-i", inventory or lab.inventory, path, *arguments)
    start = time.monotonic()
    done = run(argv, timeout_s=timeout_s, check=False, env={**os.environ, **environment(lab)}, cwd=COLLECTION)
    output = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    hosts = {
        host: {name: int(value) for name, _, value in (part.partition("=") for part in counts.split())}
        for host, counts in _RECAP.findall(output.rpartition("PLAY RECAP")[2])
    }
    recap = Recap(done.returncode, output, time.monotonic() - start, hosts)
    assert recap.code == 0 or not check, f"{playbook} {' '.join(arguments)}: exit code {recap.code}\n{output[-8000:]}"
    return recap
