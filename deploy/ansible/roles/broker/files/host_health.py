"""The state of one host for playbooks/health.yml, as one line of JSON: `facts` for readers, `wrong` and `soon` for
problems that need attention.

It changes nothing and needs only Python, so that it also works if the release of broker-cy does not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from datetime import UTC, datetime

# The time limit of one program.
CALL_S = 10
# Shares of a disk in use: above the first the disk needs attention, above the second the broker is about to stop.
DISK_SOON, DISK_WRONG = 0.80, 0.95
CERTIFICATE_SOON_DAYS = 21


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", action="append", default=[], help="a log directory")
    parser.add_argument("--certificate", help="the certificate of the node")
    options = parser.parse_args()
    facts: dict[str, object] = {}
    wrong: list[str] = []
    soon: list[str] = []
    service(facts, wrong, soon)
    for each in options.dir:
        disk(each, facts, wrong, soon)
    if options.certificate:
        certificate(options.certificate, facts, wrong, soon)
    if said("timedatectl", "show", "--property=NTPSynchronized", "--value") == "no":
        soon.append("the clock is not synchronized")
    print(json.dumps({"facts": facts, "wrong": wrong, "soon": soon}))


def service(facts: dict[str, object], wrong: list[str], soon: list[str]) -> None:
    names = "ActiveState,SubState,ActiveEnterTimestamp,NRestarts,StatusText"
    shown = said("systemctl", "show", "broker-cy.service", f"--property={names}")
    found = dict(line.partition("=")[::2] for line in shown.splitlines())
    facts["release"] = os.path.basename(os.path.realpath("/opt/broker-cy/current"))
    facts["service"] = found.get("ActiveState", "unknown")
    facts["since"] = found.get("ActiveEnterTimestamp", "")
    facts["status"] = found.get("StatusText", "")
    if facts["service"] != "active":
        wrong.append(f"the service is {facts['service']} ({found.get('SubState', 'unknown')}): journalctl -u broker-cy")
    # Restarts by systemd after failures, since the last manual start of the unit.
    if found.get("NRestarts", "0") not in ("", "0"):
        soon.append(f"systemd has started the service again {found['NRestarts']} times")


def disk(path: str, facts: dict[str, object], wrong: list[str], soon: list[str]) -> None:
    try:
        stat = os.statvfs(path)
        # Data in the kernel's memory says nothing about the disk; opening a file accesses the file system.
        for name in sorted(os.listdir(path)):
            if name == "meta.properties":
                with open(os.path.join(path, name), "rb") as file:
                    file.read()
    except OSError as error:
        wrong.append(f"{path}: {error.strerror}")
        return
    total, free = stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize
    used = 1 - free / total if total else 1.0
    facts[f"disk {path}"] = f"{used:.0%} used, {free / 2**30:.1f} GiB free"
    if used >= DISK_SOON:
        (wrong if used >= DISK_WRONG else soon).append(f"{path} is {used:.0%} full")
    if stat.f_flag & os.ST_RDONLY:
        wrong.append(f"{path} is mounted read-only: the file system has had an error")


def certificate(path: str, facts: dict[str, object], wrong: list[str], soon: list[str]) -> None:
    shown = said("openssl", "x509", "-noout", "-enddate", "-in", path).partition("=")[2]
    if not shown:
        return
    end = datetime.strptime(shown, "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC)
    left = (end - datetime.now(UTC)).days
    facts["certificate"] = f"{left} days left"
    if left < CERTIFICATE_SOON_DAYS:
        (wrong if left < 0 else soon).append(f"the certificate ends in {left} days: playbooks/rotate_certs.yml")


def said(*command: str) -> str:
    """Return the output of a program; empty if it does not exist, fails, or takes too long."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=CALL_S, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    main()
