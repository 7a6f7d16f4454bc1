"""The checks of the hosts' answers."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from preflight_words import MIB, Findings, Host, listed, size

# Kernels report the size of the memory without their own part.
MEMORY_SHARE = 0.93


def last_line(text: str) -> str:
    return text.splitlines()[-1] if text else "no reason given"


def check_answers(hosts: list[Host], findings: Findings) -> None:
    for host in hosts:
        if host.options is not None and host.answer is None:
            findings.fail(
                "answers",
                f"{host.error or 'no answer'}. Correct the address or the login of the host in the inventory, start "
                "the host, or leave "
                "it out with --limit.",
                host.name,
            )


def check_system(host: Host, limits: dict[str, Any], findings: Findings) -> None:
    answer = host.answer or {}
    supported: dict[str, list[str]] = limits["supported"]
    versions = [str(version) for version in supported.get(answer["os"], [])]
    if answer["os_version"] not in versions:
        known = "; ".join(f"{name} {', '.join(map(str, numbers))}" for name, numbers in supported.items())
        findings.fail(
            "os",
            f"the system is {answer['os_name'] or 'an unknown system'}; supported are {known}. Install one of them, "
            "or add "
            f'{answer["os"]}: ["{answer["os_version"]}"] to preflight_supported if you have tried it.',
            host.name,
        )
    if answer["architecture"] not in limits["architectures"]:
        findings.fail(
            "architecture",
            f"the machine is {answer['architecture']}; supported are {listed(limits['architectures'])} "
            "(preflight_architectures).",
            host.name,
        )
    if not answer["root"]:
        findings.fail(
            "root",
            "the login is not root's and does not become it: set ansible_become: true, and give it sudo.",
            host.name,
        )
    if not answer["systemd"]:
        findings.fail("systemd", "it does not run under systemd, which the services need.", host.name)
    if not host.used:
        return
    python = answer["python"]
    if python["version"] is None:
        findings.fail(
            "python",
            f"broker_python is {python['path']}, which does not run ({python['error']}): install it, or set "
            "broker_python.",
            host.name,
        )
    elif not python["venv"]:
        findings.fail(
            "python",
            f"{python['path']} cannot make virtual environments ({last_line(python['venv_error'])}): install its "
            "package for them, as in "
            "`apt install python3-venv`.",
            host.name,
        )
    if not host.broker:
        return
    least = limits["min_memory_mb"] * MIB
    if answer["memory_bytes"] < least * MEMORY_SHARE:
        findings.fail(
            "memory",
            f"it has {size(answer['memory_bytes'])} of memory, and preflight_min_memory_mb requires "
            f"{limits['min_memory_mb']} MiB: give "
            "it more, or lower that value.",
            host.name,
        )


def planned(host: Host) -> dict[str, dict[str, str]]:
    """The file systems that os_tuning creates or mounts later in the play, by path."""
    disks = host.options["disks"] if host.options else []
    return {str(disk.get("path", "")).rstrip("/") or "/": disk for disk in disks if isinstance(disk, dict)}


def mount_planned(path: str, host: Host) -> str | None:
    return next((at for at in planned(host) if at != "/" and (path == at or path.startswith(at + "/"))), None)


def check_directories(host: Host, limits: dict[str, Any], findings: Findings) -> None:
    answer = host.answer or {}
    if not host.used:
        return
    install = answer["install"]
    least = limits["min_install_mb"] * MIB
    if install.get("error") or install["read_only"] or install["free_bytes"] < least:
        why = install.get("error") or (
            "it is read-only" if install["read_only"] else f"{size(install['free_bytes'])} are free"
        )
        findings.fail(
            "disk_space",
            f"{install['path']} is for the releases, and {why}. preflight_min_install_mb requires "
            f"{limits['min_install_mb']} MiB: "
            "make room.",
            host.name,
        )
    by_device: dict[object, list[str]] = defaultdict(list)
    for found in answer["directories"]:
        path = found["path"]
        if at := mount_planned(path, host):
            by_device[at].append(path)
            continue
        if found.get("error"):
            findings.fail("log_directories", f"{path} cannot be a log directory: {found['error']}.", host.name)
            continue
        by_device[found["device"]].append(path)
        if found["on_root"]:
            findings.fail(
                "log_directories",
                f"{path} is on the file system of /, which full logs would stop: mount a separate disk "
                "(os_tuning_disks does that), or "
                "set broker_log_dirs to a directory on one.",
                host.name,
            )
        if found["read_only"]:
            findings.fail(
                "log_directories",
                f"{path} is on {found['mount']}, which is mounted read-only: repair the disk.",
                host.name,
            )
        if found["file_system"] in ("tmpfs", "ramfs"):
            findings.fail(
                "log_directories",
                f"{path} is on a {found['file_system']}, which a restart empties: use a disk.",
                host.name,
            )
        need = limits["min_free_mb"] * MIB
        # A directory in use fills up by design: retention and alerts limit it, and a change must remain possible.
        if found["free_bytes"] < need and found["node_id"] is None:
            findings.fail(
                "disk_space",
                f"{size(found['free_bytes'])} are free on {found['mount']} for {path}, and preflight_min_free_mb "
                "requires "
                f"{limits['min_free_mb']} MiB: use a larger disk, or lower that value.",
                host.name,
            )
    for paths in by_device.values():
        if len(paths) > 1:
            findings.warn(
                "log_directories",
                f"{listed(paths)} are on one device: this adds neither throughput nor fault tolerance; "
                "use one directory for "
                "each disk.",
                host.name,
            )


def check_metadata(host: Host, findings: Findings) -> None:
    """A node whose metadata log is not in the directory that the inventory gives it, because a disk was put first."""
    directories = host.variables.get("broker_log_dirs") or []
    wanted = host.variables.get("broker_metadata_log_dir") or next(iter(directories), "")
    holds = [found["path"] for found in (host.answer or {}).get("directories", []) if found.get("metadata")]
    if holds and wanted and wanted not in holds:
        findings.fail(
            "log_directories",
            f"the metadata log is in {listed(holds)}, and the inventory says {wanted}: put {holds[0]} first in "
            "broker_log_dirs, or set broker_metadata_log_dir to it.",
            host.name,
        )


def check_disks(host: Host, findings: Findings) -> None:
    """Only a blank device is formatted, and only XFS is mounted."""
    wanted = planned(host)
    for found in (host.answer or {}).get("disks", []):
        device = found["device"]
        path = next((at for at, disk in wanted.items() if disk.get("device") == device), "")
        if found["state"] == "absent":
            findings.fail(
                "disks",
                f"os_tuning_disks names {device}: {found['content']}. Correct the name. If the disk failed, replace it "
                "(playbooks/replace_disk.yml).",
                host.name,
            )
        elif found["state"] == "dead":
            findings.fail(
                "disks",
                f"os_tuning_disks names {device}, which does not answer ({found['content']}): replace the disk, and "
                f"run playbooks/replace_disk.yml -e broker_replace_disk={host.name} -e broker_replace_path={path}.",
                host.name,
            )
        elif found["state"] == "xfs" and (elsewhere := [at for at in found["mounted"] if at.rstrip("/") != path]):
            findings.fail(
                "disks",
                f"{device} is mounted at {listed(elsewhere)}, and os_tuning_disks says {path}: correct one of them.",
                host.name,
            )
        elif found["state"] == "other":
            findings.fail(
                "disks",
                f"os_tuning_disks names {device}, which is not blank ({found['content']}), and only a blank device is "
                f"formatted. Check the device. If its data is not needed, run `wipefs --all {device}` on the "
                "host, and begin again.",
                host.name,
            )


def check_identity(hosts: list[Host], findings: Findings) -> None:
    """Directories formatted by another node: disks were swapped, or ids were changed."""
    clusters: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        for found in (host.answer or {}).get("directories", []):
            wanted = str(host.variables.get("broker_node_id", ""))
            if found.get("node_id") not in (None, wanted):
                findings.fail(
                    "identity",
                    f"{found['path']} belongs to node {found['node_id']}, and broker_node_id is {wanted}: set it "
                    "back to "
                    f"{found['node_id']}, or use an empty directory.",
                    host.name,
                )
            if found.get("cluster_id"):
                clusters[found["cluster_id"]].append(host.name)
    if len(clusters) > 1:
        parts = [f"{listed(sorted(set(names)))}: {cluster}" for cluster, names in clusters.items()]
        findings.fail(
            "identity",
            f"The log directories belong to several clusters: {'; '.join(parts)}. Use one inventory for each.",
        )


def check_ports(host: Host, unit: str, findings: Findings) -> None:
    answer = host.answer or {}
    taken = set()
    for what, state in answer.get("ports", {}).items():
        owner = state["owner"]
        if state["taken"] and owner["unit"] != unit:
            taken.add(what)
            who = (
                f"{owner['command']} (process {owner['pid']}{', ' + owner['unit'] if owner['unit'] else ''})"
                if owner["pid"]
                else "a process"
            )
            findings.fail(
                "ports",
                f"{who} listens at port {state['port']}, which is broker_{what}_port: stop it, or set another port.",
                host.name,
            )
    for what, why in answer.get("listening", {}).items():
        if why and what not in taken:
            findings.fail(
                "ports",
                f"no process can listen at port {answer['ports'][what]['port']} (broker_{what}_port): {why}. Set "
                "another port.",
                host.name,
            )


def check_clocks(hosts: list[Host], limits: dict[str, Any], findings: Findings) -> None:
    for host in hosts:
        clock = (host.answer or {}).get("clock", {})
        if clock.get("synchronised") is False:
            findings.fail(
                "clock_synchronised",
                "the clock is not synchronised: install chrony or systemd-timesyncd, and wait until `timedatectl` "
                "says that it is.",
                host.name,
            )
        elif host.answer and clock.get("synchronised") is None:
            findings.warn(
                "clock_synchronised",
                "the synchronisation of the clock cannot be "
                f"checked{' in a container' if host.answer['container'] != 'none' else ''}: check "
                "it on the machine that owns the clock.",
                host.name,
            )
    most = float(limits["max_clock_difference_s"])
    ahead = {**apart_of_control(hosts, most), **apart_of_each_other(hosts, most)}
    for (one, other), seconds in sorted(ahead.items()):
        if (other, one) in ahead and ahead[other, one] > seconds:
            continue
        first, second = (one, other) if seconds > 0 else (other, one)
        findings.fail(
            "clock_difference",
            f"The clock of {first} is {abs(seconds):.1f} s ahead of that of {second}, and "
            f"preflight_max_clock_difference_s is {most:g}: "
            "synchronise both with the same servers.",
        )


def apart_of_each_other(hosts: list[Host], most: float) -> dict[tuple[str, str], float]:
    """Return the clock differences of hosts that contacted each other, precise to one exchange: for each sorted pair of
    names, the time by which the first is ahead.
    """
    found: dict[tuple[str, str], float] = {}
    for host in hosts:
        for tried in host.tried:
            if tried.get("said") and "ahead_s" in tried and tried["said"] != host.name:
                certain = abs(tried["ahead_s"]) - tried["bound_s"]
                if certain > most:
                    one, other = sorted((host.name, tried["said"]))
                    found[one, other] = tried["ahead_s"] if one == tried["said"] else -tried["ahead_s"]
    return found


def apart_of_control(hosts: list[Host], most: float) -> dict[tuple[str, str], float]:
    """Return the clock differences of the other hosts. A host read its clock between two times of the control node, so
    the result is certain but not precise.
    """
    clocks = []
    for host in hosts:
        if host.answer:
            begun, ended = host.asked_between
            at = host.answer["clock"]["time"]
            # The host is ahead of the control node by at least the first and at most the second.
            clocks.append((host.name, at - ended, at - begun))
    found = {}
    for one, least, _ in clocks:
        for other, _, highest in clocks:
            if least - highest > most:
                found[min(one, other), max(one, other)] = (least - highest) * (1 if one < other else -1)
    return found


def loopback(address: str) -> bool:
    return address == "::1" or address.startswith("127.")


def check_names(hosts: list[Host], findings: Findings) -> None:
    """Names that a host cannot resolve, once for each name."""
    faults: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host in hosts:
        for address, found in host.resolved.items():
            if not found["addresses"]:
                faults[address, found["error"]].append(host.name)
            elif address not in (host.address, *found["addresses"]) and all(map(loopback, found["addresses"])):
                faults[address, f"it is {found['addresses'][0]} there, the host itself"].append(host.name)
    for (address, why), names in faults.items():
        owner = next((host.name for host in hosts if host.address == address), address)
        findings.fail(
            "names",
            f"the name {address} of {owner} cannot be resolved ({why}): add it to the DNS or to /etc/hosts, or set "
            f"broker_address of {owner} to a number.",
            *names,
        )


def check_reach(hosts: list[Host], findings: Findings) -> None:
    """Listeners that another host does not reach, and those where another host answers."""
    faults: dict[tuple[str, str, int, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    all_of: dict[tuple[str, int], set[str]] = defaultdict(set)
    for host in hosts:
        for tried in host.tried:
            key = (tried["name"], tried["port"])
            all_of[key].add(host.name)
            why = tried["error"]
            if not why and tried["listener"] and tried["said"] != tried["name"]:
                why = f"{tried['said']} answers there" if tried["said"] else "another program answers there"
            if why:
                faults[tried["name"], tried["address"], tried["port"], tried["what"]][why].append(host.name)
    for (name, address, port, what), reasons in faults.items():
        who = sorted({host for names in reasons.values() for host in names})
        text = "; ".join(f"{why} ({listed(names)})" for why, names in reasons.items())
        subject = "No host can reach" if set(who) == all_of[name, port] else f"{listed(who)} cannot reach"
        target = next((host for host in hosts if host.name == name), None)
        foreign = target is not None and target.answer is not None and not target.answer.get("own_addresses")
        hint = (
            f"{address} is not an address of {name}: correct its broker_address"
            if foreign
            else "open the port in the firewalls between them, or correct broker_address"
        )
        findings.fail("reach", f"{subject} the listener {what} of {name} at {address}:{port}: {text}; {hint}.")


def check_replies(hosts: list[Host], options: dict[str, Any], findings: Findings) -> None:
    check_answers(hosts, findings)
    answered = [host for host in hosts if host.answer is not None]
    for host in answered:
        check_system(host, options, findings)
        check_directories(host, options, findings)
        check_metadata(host, findings)
        check_disks(host, findings)
        check_ports(host, options["unit"], findings)
    check_identity(answered, findings)
    check_clocks(answered, options, findings)
    check_names(answered, findings)
    check_reach(answered, findings)
