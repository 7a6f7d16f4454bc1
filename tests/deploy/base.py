"""The root file system that all hosts of a lab share: Debian as after the installation of a server, built once. It is
the read-only layer below each host's own layer; see host.py.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Takes minutes if the mirror is far away.
BUILD_S = 900.0
# The packages that Debian's installer leaves on a server with an SSH server, and the tools for the disks. Playbooks
# install everything else; hosts of a lab reach no mirror.
PACKAGES = (
    "systemd,systemd-sysv,dbus,libpam-systemd,openssh-server,sudo,python3,python3-apt,python3-venv,iproute2,iputils-ping,"
    "procps,kmod,nftables,logrotate,rsync,ca-certificates,xz-utils,less,curl,e2fsprogs,xfsprogs,util-linux-extra"
)
# Without manuals and translations, and without disk flushes: a lab's base can be rebuilt.
QUICK = (
    "--dpkgopt=force-unsafe-io",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--aptopt=Apt::Install-Recommends false",
    # Java registers its manuals, which are left out, in this directory.
    '--essential-hook=mkdir -p "$1/usr/share/man/man1"',
)
HOST_KEYS = """[Unit]
Description=Makes the keys of the SSH server on the first start
Before=ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/ssh-keygen -A
[Install]
WantedBy=multi-user.target
"""
# These have no use in a lab, and cost seconds of each start.
UNUSED = ("apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer")


class LabError(Exception):
    """A lab cannot perform an operation; the text has the reason."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, because several labs use one base."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def do(*words: str | Path, stdin: str | None = None, timeout_s: float = 60.0) -> str:
    """Run a program to its end, and return its output. Raises LabError with its error output."""
    argv = [str(word) for word in words]
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{argv[0]}: {error}") from None
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)[:200]}: exit code {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def missing() -> str:
    """The reason why this machine cannot run a lab; empty if it can."""
    if os.geteuid() != 0:
        return "a lab of hosts needs root"
    programs = {
        "mmdebstrap": "mmdebstrap",
        "systemd-nspawn": "systemd-container",
        "ip": "iproute2",
        "nft": "nftables",
        "ssh": "openssh-client",
    }
    lacking = sorted(package for program, package in programs.items() if shutil.which(program) is None)
    if lacking:
        return f"a lab of hosts needs these packages: {' '.join(lacking)}"
    if not Path("/etc/apt/sources.list.d").is_dir():
        return "the base of lab hosts is built with the package sources of a Debian machine"
    return ""


def key(root: Path) -> Path:
    """The SSH key for the user `deploy` of each host."""
    path = root / "key"
    with locked(root / "key.lock"):
        if not path.exists():
            do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path, "-C", "lab")
    return path


def base(root: Path, suite: str, extra: Sequence[str]) -> Path:
    """Return the directory of the base with the extra packages; the first call builds it, in about a minute."""
    packages = ",".join([PACKAGES, *sorted(extra)])
    # Another list of packages makes another base.
    mark = hashlib.sha256(f"{packages}{HOST_KEYS}{UNUSED}".encode()).hexdigest()[:8]
    made = root / f"base-{suite}-{mark}"
    public = key(root).with_suffix(".pub").read_text()
    with locked(root / f"{made.name}.lock"):
        if not made.exists():
            work = root / f"{made.name}.part"
            shutil.rmtree(work, ignore_errors=True)
            argv = ["mmdebstrap", "--mode=root", "--variant=minbase", "--quiet", f"--include={packages}", *QUICK]
            do(*argv, suite, work, "-", stdin=_sources(suite), timeout_s=BUILD_S)
            _settle(work, public)
            work.rename(made)
    return made


def _sources(suite: str) -> str:
    """The mirrors that this machine uses, for a release of Debian."""
    found = "\n\n".join(
        path.read_text() for path in sorted(Path("/etc/apt/sources.list.d").glob("*.sources")) if "debian" in path.name
    )
    here = re.search(r"^Suites: (\w+)", found, re.MULTILINE)
    if here is None:
        raise LabError("/etc/apt/sources.list.d names no mirror of Debian in a file *debian*.sources")
    return re.sub(rf"\b{here[1]}\b", suite, found)


def _settle(tree: Path, public: str) -> None:
    """Prepare the tree as a base for many hosts: without an identity, with the user `deploy`, without mirrors."""
    for path in [*(tree / "etc/ssh").glob("ssh_host_*"), tree / "var/lib/dbus/machine-id", tree / "etc/resolv.conf"]:
        path.unlink(missing_ok=True)
    for path in (tree / "etc/apt/sources.list.d").iterdir():
        path.unlink()
    for name in ("etc/apt/sources.list", "etc/machine-id", "etc/resolv.conf"):
        (tree / name).write_text("")
    do("chroot", tree, "useradd", "-m", "-s", "/bin/bash", "deploy")
    sudoers = tree / "etc/sudoers.d/deploy"
    sudoers.write_text("deploy ALL=(ALL) NOPASSWD:ALL\n")
    sudoers.chmod(0o440)
    ssh = tree / "home/deploy/.ssh"
    ssh.mkdir(mode=0o700)
    (ssh / "authorized_keys").write_text(public)
    do("chroot", tree, "chown", "-R", "deploy:", "/home/deploy/.ssh")
    (tree / "etc/ssh/sshd_config.d/lab.conf").write_text("UseDNS no\nMaxSessions 50\nMaxStartups 50\n")
    (tree / "etc/systemd/system/host-keys.service").write_text(HOST_KEYS)
    do("chroot", tree, "systemctl", "-q", "enable", "host-keys.service", "ssh.service")
    do("chroot", tree, "systemctl", "-q", "mask", *UNUSED)
