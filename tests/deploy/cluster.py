"""A cluster that playbooks/site.yml has set up on the hosts of a lab, for its users and operators."""

from __future__ import annotations

import json
import shlex
from typing import Any

from tests.deploy.lab import Lab

COMMAND = "/opt/broker-cy/current/bin/broker-cy"
CLUSTERS = "/etc/broker-cy/clusters.toml"


def ask(lab: Lab, host: str, *words: str, stdin: str = "") -> str:
    """Run `broker-cy` on a host as its administrator, and return the output."""
    line = f"sudo {COMMAND} {shlex.join(words)} --cluster local --clusters-file {CLUSTERS}"
    return lab.ssh(host, f"printf %s {shlex.quote(stdin)} | {line}").stdout


def ask_json(lab: Lab, host: str, *words: str) -> Any:
    """Run `broker-cy ... --json` on a host, and return its output."""
    return json.loads(ask(lab, host, *words, "--json"))


def produce_and_consume(lab: Lab, producer: str, consumer: str, topic: str = "first") -> None:
    """Produce records on one host and read them on another one."""
    known = {each["name"] for each in ask_json(lab, producer, "topics", "list")}
    if topic not in known:
        ask(lab, producer, "topics", "create", topic, "-p", "3")
    ask(lab, producer, "produce", topic, "-K", ":", stdin="a:1\nb:2\nc:3\n")
    read = ask(lab, consumer, "consume", topic, "-e").split()
    assert {"1", "2", "3"} <= set(read), read
