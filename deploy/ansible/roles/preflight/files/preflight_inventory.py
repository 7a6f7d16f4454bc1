"""The checks of the inventory, which need no host."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from preflight_words import GROUPS, Findings, Host, listed, truth

# Hosts with Apache Kafka, of playbooks/migrate_from_kafka.yml.
MIGRATED = "kafka"
ROLE_OF_GROUP = {
    "brokers": "broker",
    "dashboards": "dashboard",
    "registries": "registry",
    "mirrors": "mirror",
    "streams": "streams",
    "analytics": "analytics",
    "load_workers": "load_worker",
    "monitoring": "monitoring",
}
# Processes of a node with --shards have the ids node.id + 1000 and so on.
HIGHEST_NODE_ID = 999
# The same as in `broker-cy acls create`; the cluster has no name.
KINDS_OF_RESOURCES = ("topic", "group", "transactional-id", "delegation-token", "user")
OPERATIONS = (
    *("all", "read", "write", "create", "delete", "alter", "describe", "cluster-action", "describe-configs"),
    *("alter-configs", "idempotent-write", "create-tokens", "describe-tokens", "two-phase-commit"),
)
# A name counts as misspelled from this similarity on: 1 is the same name.
LIKENESS = 0.75
# Without a role's prefix it must be more similar, because the inventory may have variables of other collections.
LIKENESS_OF_OTHERS = 0.88
# Values are not shown whole: a list of users may be long.
SHOWN = 60
WORD = re.compile(r"\b[a-z][a-z0-9_]+\b")
SECRET = re.compile(r"password|secret|token|private|key", re.IGNORECASE)


def parsed(path: Path) -> Any:
    """The content of a YAML file, parsed by the C parser if available, which is ten times as fast."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)


def options_of(roles: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The options of each role's entry points, from meta/argument_specs.yml, by role and name."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for path in sorted(roles.glob("*/meta/argument_specs.yml")):
        specs = parsed(path)["argument_specs"]
        # The main entry point takes precedence if several have the option.
        entries = sorted(specs.items(), key=lambda entry: entry[0] == "main")
        found[path.parent.parent.name] = {
            name: {**option, "main": entry == "main"}
            for entry, spec in entries
            for name, option in (spec.get("options") or {}).items()
        }
    return found


def used_inside(roles: Path) -> set[str]:
    """All words of the collection: facts and results that stay with a host, and options of playbooks given with `-e`,
    are not variables of a role. A misspelled name does not occur in it.
    """
    words: set[str] = set()
    for directory in (*(path for path in roles.iterdir() if path.is_dir()), roles.parent / "playbooks"):
        for path in directory.rglob("*"):
            if path.suffix in (".yml", ".j2"):
                words.update(WORD.findall(path.read_text(encoding="utf-8")))
    return words


def nearest(name: str, known: set[str], cutoff: float = LIKENESS) -> str:
    return next(iter(difflib.get_close_matches(name, sorted(known), 1, cutoff)), "")


def shown(name: str, value: object, option: dict[str, Any]) -> str:
    """The value for a message, unless it may contain a secret."""
    if option.get("no_log") or SECRET.search(name) or (isinstance(value, dict | list) and SECRET.search(str(value))):
        return "(not shown)"
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def check_variables(hosts: list[Host], roles: Path, findings: Findings) -> None:
    """Unknown names, wrong types, and missing required variables; once for all hosts with the same fault."""
    by_role = options_of(roles)
    internal = used_inside(roles)
    known = {name for options in by_role.values() for name in options}
    prefixes = tuple(f"{role}_" for role in by_role)
    faults: dict[tuple[str, str], list[str]] = defaultdict(list)
    likely: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host in hosts:
        for name, value in sorted(host.variables.items()):
            if name in known:
                for fault in type_faults(name, value, by_role):
                    faults["types", fault].append(host.name)
            elif name in internal or name.startswith("_"):
                continue
            elif name.startswith(prefixes):
                near = nearest(name, known)
                hint = f"did you mean {near}?" if near else "remove it, or rename it if it is a variable of your own."
                faults["variables", f"{name} is not a variable of any role: {hint}"].append(host.name)
        for name in host.others:
            if near := nearest(name, known, LIKENESS_OF_OTHERS):
                likely["variables", f"{name} is not a variable of any role; the nearest one is {near}."].append(
                    host.name
                )
        for name, option in missing(host, by_role):
            text = f"{name} is required and not set: {' '.join(str(option.get('description', '')).split())}"
            faults["types", text].append(host.name)
    for (check, fault), names in faults.items():
        findings.fail(check, fault, *names)
    for (check, fault), names in likely.items():
        findings.warn(check, fault, *names)


def missing(host: Host, by_role: dict[str, dict[str, dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for group in host.groups:
        for name, option in by_role.get(ROLE_OF_GROUP.get(group, ""), {}).items():
            if option["main"] and option.get("required") and name not in host.variables:
                yield name, option


def type_faults(name: str, value: object, by_role: dict[str, dict[str, dict[str, Any]]]) -> Iterator[str]:
    """The error of a value, by Ansible's own check of the roles' arguments and by its range."""
    option = next(options[name] for options in by_role.values() if name in options)
    spec = {key: content for key, content in option.items() if key not in ("description", "main", "version_added")}
    # A variable without a default has the value null; Ansible skips it, too.
    if value is None and not option.get("required"):
        return
    try:
        validated = ArgumentSpecValidator({name: spec}).validate({name: value})
    except (TypeError, ValueError) as error:
        yield f"{name}: {error}"
        return
    for message in validated.error_messages:
        # Ansible's message may contain the value.
        text = message if shown(name, value, option) != "(not shown)" else message.split(" got ")[0]
        yield f"{name} is {shown(name, value, option)}: {text}"
    if validated.error_messages:
        return
    number = validated.validated_parameters.get(name)
    if name.endswith("_port") and isinstance(number, int) and not 1 <= number <= 65535:
        yield f"{name} is {number}: a port is a number from 1 to 65535."
    if name == "broker_users":
        yield from right_faults(validated.validated_parameters[name])
    if name == "broker_node_id" and isinstance(number, int) and not 0 <= number <= HIGHEST_NODE_ID:
        yield f"{name} is {number}: a node id is a number from 0 to {HIGHEST_NODE_ID}."


def right_faults(users: list[dict[str, Any]]) -> Iterator[str]:
    """Errors that `broker-cy acls create` would report only when the cluster is already serving."""
    for user in users:
        for right in user.get("acls") or []:
            whose = f"broker_users, acls of {user['name']}"
            kind, _, name = right["resource"].partition(":")
            if kind.lower() != "cluster" and (as_word(kind) not in KINDS_OF_RESOURCES or not name):
                yield (
                    f"{whose}: resource is {right['resource']!r}; allowed are cluster and TYPE:NAME with one of the "
                    f"types {listed(list(KINDS_OF_RESOURCES))}, such as topic:orders."
                )
            for operation in right["operations"]:
                if as_word(operation) not in OPERATIONS:
                    yield f"{whose}: operation is {operation!r}; allowed are {listed(list(OPERATIONS))}."


def as_word(text: str) -> str:
    return text.lower().replace("_", "-")


def check_groups(hosts: list[Host], groups: dict[str, list[str]], findings: Findings) -> None:
    """A misspelled group would silently leave its hosts out."""
    for group, members in sorted(groups.items()):
        if group not in (*GROUPS, "all", "ungrouped") and members and (near := nearest(group, set(GROUPS), 0.8)):
            findings.fail("groups", f"The inventory has a group {group}, which no playbook uses: did you mean {near}?")
    if unused := [host.name for host in hosts if not host.used and MIGRATED not in host.groups]:
        findings.warn(
            "groups", f"in none of the groups {listed(list(GROUPS))}: no playbook does anything there.", *unused
        )
    if not any(host.broker for host in hosts):
        findings.fail(
            "groups", "No host is in the group brokers: name the brokers' hosts in this group of the inventory."
        )


def check_node_ids(hosts: list[Host], findings: Findings) -> None:
    by_id: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        if host.broker and "broker_node_id" in host.variables:
            by_id[str(host.variables["broker_node_id"])].append(host.name)
    for number, names in by_id.items():
        if len(names) > 1:
            free = next(each for each in range(1, len(hosts) + 2) if str(each) not in by_id)
            findings.fail(
                "node_ids",
                f"{listed(names)} have the same broker_node_id {number}: give each host its own; {free} is not taken.",
            )


def check_voters(hosts: list[Host], findings: Findings) -> None:
    brokers, voters = [host for host in hosts if host.broker], [host.name for host in hosts if host.voter]
    if brokers and not voters:
        findings.fail("voters", "No broker has broker_controller: true. Set it on 1, 3 or 5 of them.")
    elif voters and len(voters) % 2 == 0:
        findings.fail(
            "voters",
            f"The quorum would have {len(voters)} voters ({listed(voters)}). An even number tolerates no more "
            "failures than "
            f"{len(voters) - 1}, and can split into equal halves: set broker_controller: false on one of "
            f"them, for example on {voters[-1]}, or add a voter.",
        )


def check_racks(hosts: list[Host], findings: Findings) -> None:
    brokers = [host for host in hosts if host.broker]
    without = [host.name for host in brokers if not str(host.variables.get("broker_rack") or "").strip()]
    if without and len(without) < len(brokers):
        findings.fail(
            "racks",
            "no broker_rack, but other brokers have one. Replicas are placed by rack only if all brokers have one: "
            "set it on all, or on "
            "none.",
            *without,
        )


def check_addresses(hosts: list[Host], findings: Findings) -> None:
    """Addresses that two brokers share, and those that only the host itself can reach."""
    by_address: dict[str, list[str]] = defaultdict(list)
    brokers = [host for host in hosts if host.broker]
    for host in brokers:
        by_address[host.address.lower()].append(host.name)
    local = {host.variables.get("ansible_connection") for host in brokers} == {"local"}
    for address, names in by_address.items():
        if len(names) > 1:
            findings.fail(
                "addresses",
                f"{listed(names)} have the same address {address}: set broker_address of each to a different address.",
            )
        if everywhere_or_nowhere(address, local or len(brokers) == 1):
            findings.fail(
                "addresses",
                f"broker_address is {address}, which no other host can reach: set it to the address or the name "
                "at which clients and "
                "the other nodes connect.",
                *names,
            )


def everywhere_or_nowhere(address: str, local: bool) -> bool:
    if address in ("localhost", "localhost.localdomain"):
        return not local
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return False
    return number.is_unspecified or number.is_multicast or (number.is_loopback and not local)


def check_disk_names(host: Host, findings: Findings) -> None:
    """A device for two mount points, or two devices for one."""
    disks = host.variables.get("os_tuning_disks", [])
    entries = [each for each in disks if isinstance(each, dict)] if isinstance(disks, list) else []
    for name, what in (("device", "a device"), ("path", "a path")):
        values = [str(each[name]) for each in entries if name in each]
        if twice := sorted({each for each in values if values.count(each) > 1}):
            findings.fail("disks", f"os_tuning_disks has {what} twice: {listed(twice)}.", host.name)


def check_inventory(hosts: list[Host], groups: dict[str, list[str]], roles: Path, findings: Findings) -> None:
    check_groups(hosts, groups, findings)
    check_variables(hosts, roles, findings)
    check_node_ids(hosts, findings)
    check_voters(hosts, findings)
    check_racks(hosts, findings)
    check_addresses(hosts, findings)
    for host in hosts:
        directories = host.variables.get("broker_log_dirs", [])
        for path in directories if isinstance(directories, list) else []:
            if not str(path).startswith("/"):
                findings.fail(
                    "log_directories", f"broker_log_dirs has {path}, which is not an absolute path.", host.name
                )
        if isinstance(directories, list) and len(set(map(str, directories))) < len(directories):
            findings.fail(
                "log_directories",
                f"broker_log_dirs has a directory twice: {listed([*map(str, directories)])}.",
                host.name,
            )
        check_disk_names(host, findings)
        if truth(host.variables.get("broker_plaintext", False)) and host.broker:
            findings.warn(
                "variables",
                "broker_plaintext is true: every client that reaches the broker has full access.",
                host.name,
            )
