"""On the control node: all checks of the inventory and of the hosts' answers.

Reads JSON on the standard input, as the tasks of the role pass it, and prints {"report": [..], "warnings": [..]}:
readable lines without secrets. It runs with the Python of Ansible, because it uses Ansible's check of arguments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from preflight_answers import check_replies
from preflight_inventory import check_inventory, nearest
from preflight_settings import check_settings
from preflight_wheels import check_wheelhouse
from preflight_words import CHECKS, Findings, Host

# Variables that the tasks of the role set for each host; they are not from the inventory.
OWN = ("preflight_options", "preflight_asked", "preflight_reached", "preflight_answered")


def answer_of(result: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """The JSON that a host printed, or the reason why it is missing, from the result of a task."""
    if result.get("unreachable"):
        return None, f"cannot be reached: {result.get('msg', '')}"
    if result.get("rc") != 0:
        text = str(result.get("stderr") or result.get("msg") or "").strip()
        return None, f"did not answer: {text.splitlines()[-1] if text else 'no reason given'}"
    answer: dict[str, Any] = json.loads(result["stdout"])
    return answer, ""


def host_of(name: str, given: dict[str, Any]) -> Host:
    variables, groups = given["variables"][name], given["groups"]
    host = Host(
        name,
        [group for group, members in groups.items() if name in members],
        {key: value for key, value in variables.items() if key not in OWN},
        given["others"][name],
    )
    if name in given["asked"]:
        host.options = variables["preflight_options"]
        host.answer, host.error = answer_of(variables["preflight_asked"])
        host.asked_between = ((host.answer or {}).get("started", 0), float(given["answered"]))
        reached = variables.get("preflight_reached") or {}
        if reached.get("rc") == 0:
            found = json.loads(reached["stdout"])
            host.tried, host.resolved = found["tried"], found["names"]
    return host


def judge(given: dict[str, Any]) -> Findings:
    options: dict[str, Any] = given["options"]
    hosts = [host_of(name, given) for name in given["variables"]]
    findings = Findings(frozenset(options["skip"]))
    for name in sorted(findings.skip - set(CHECKS)):
        near = nearest(name, set(CHECKS), 0.6)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(CHECKS)}."
        findings.fail("variables", f"preflight_skip names {name}, which is not a check: {hint}")
    check_inventory(hosts, given["groups"], Path(given["roles"]).resolve(), findings)
    check_replies(hosts, options, findings)
    if any(host.broker and host.options is not None for host in hosts):
        wheelhouse, version = Path(options["wheelhouse"]).resolve(), str(options["version"])
        check_wheelhouse(wheelhouse, version, hosts, findings)
        check_settings(wheelhouse, version, hosts, findings)
    return findings


def report(findings: Findings) -> list[str]:
    """The lines of the report; empty if there are no problems."""
    if not findings.failures:
        return []
    many = "This is" if len(findings.failures) == 1 else f"These {len(findings.failures)} are"
    return [f"Nothing was changed. {many} to be put right first:", *(f"- {each}" for each in findings.failures)]


if __name__ == "__main__":
    found = judge(json.load(sys.stdin))
    print(json.dumps({"report": report(found), "warnings": found.warnings}))
