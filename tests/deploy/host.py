"""One host of a lab: a systemd-nspawn container with systemd as its first process, and with its own address and disk.

Its files: `up` (the layer over the base), `data.img` (mounted at /srv/data), `blank1.img` and on (devices without a
file system, if asked for: /dev/vdb, /dev/vdc and on) and `console.log`. All its processes are in one control group. A
power cut kills all of them at the same time.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.deploy.base import LabError, do, locked

NET = "10.66.0"
CONTROL = f"{NET}.1"
MOST = 40
START_S, STOP_S, POLL_S = 60.0, 120.0, 0.1
# Its mounts are in a separate namespace, and vanish with the host. nspawn exits with 133 if the host asked to start
# again.
POWER_ON = r"""
set -e
echo $$ >"$GROUP/cgroup.procs"
mount -t overlay overlay -o "lowerdir=$BASE,upperdir=$D/up,workdir=$D/work" "$D/root"
mount -o loop,noatime "$D/data.img" "$D/data"
set -- --bind="$D/data:/srv/data"
devices=
for image in "$D"/blank*.img; do
    [ -f "$image" ] || continue
    letter=$(basename "$image" .img | tr -d a-z | tr 1-8 b-i)
    device=$(losetup --find --show "$image")
    devices="$devices $device"
    set -- "$@" --bind="$device" --bind="$device:/dev/vd$letter"
done
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
export SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes
set +e
while :; do
    systemd-nspawn -b -q -D "$D/root" --machine="$NAME" --network-namespace-path="/run/netns/$SPACE" "$@" \
        --register=no --keep-unit --resolv-conf=off --timezone=off --console=read-only \
        --capability=CAP_NET_ADMIN,CAP_SYSLOG
    code=$?
    [ $code = 133 ] || break
done
[ -z "$devices" ] || losetup -d $devices
exit $code
"""


def number(name: str) -> int:
    """The number of a host n1, n2, ..."""
    digits = name.removeprefix("n")
    if not (name.startswith("n") and digits.isdecimal() and 1 <= int(digits) <= MOST):
        raise LabError(f"{name}: hosts are n1 to n{MOST}")
    return int(digits)


def address(name: str) -> str:
    """The address of a host: n1 has 10.66.0.11."""
    return f"{NET}.{10 + number(name)}"


def names_file(name: str) -> str:
    """The contents of /etc/hosts of a machine: a lab has no name server."""
    lines = ["127.0.0.1 localhost", f"{CONTROL} control"]
    lines += [f"{NET}.{10 + each} n{each}" for each in range(1, MOST + 1)]
    return "\n".join(lines) + f"\n# {name}\n"


def control_groups(root: Path) -> Path:
    """The mount point of version 2 control groups; mounts them if necessary."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup2" and "rw" in options.split(","):
            return Path(place)
    place_here = root / "cgroup"
    place_here.mkdir(parents=True, exist_ok=True)
    do("mount", "-t", "cgroup2", "none", place_here)
    return place_here


# Each host watches some dozens of files, and all hosts count as one user of this machine.
WATCHES = (Path("/proc/sys/fs/inotify/max_user_instances"), 8192)


def allow_watches(root: Path) -> None:
    """Raise this machine's limit, and keep the previous value, which the last lab on it restores."""
    file, wanted = WATCHES
    kept = root / file.name
    with locked(root / "watches.lock"):
        value = int(file.read_text())
        if value < wanted:
            kept.write_text(str(value))
            file.write_text(str(wanted))


def restore_watches(root: Path) -> None:
    """Restore the machine's own value if no lab is left."""
    file, _ = WATCHES
    kept = root / file.name
    with locked(root / "watches.lock"):
        if kept.exists() and not any(path.is_dir() for path in root.glob("lab-*")):
            file.write_text(kept.read_text())
            kept.unlink()


@dataclass(frozen=True)
class Shape:
    """The sizes and packages of new hosts."""

    suite: str = "bookworm"
    # Sizes in the format of truncate. The files are sparse.
    disk: str = "2G"
    blank: str = ""
    # How many devices of the size `blank` a host has, at most 8.
    blanks: int = 1
    packages: tuple[str, ...] = field(default=())


class Host:
    """A host by its name; its files are below `directory`, and its cable ends in the switch's namespace."""

    def __init__(self, root: Path, directory: Path, lab: str, name: str) -> None:
        self.name, self.address, self.directory = name, address(name), directory / name
        self._root, self.switch, self.space = root, f"lab-{lab}", f"lab-{lab}-{name}"
        self.port = f"sw{number(name)}"
        self._group = control_groups(root) / f"broker-cy-lab-{lab}-{name}"

    @property
    def exists(self) -> bool:
        return (self.directory / "up").is_dir()

    @property
    def running(self) -> bool:
        """Whether any process of the host exists."""
        try:
            return "populated 1" in (self._group / "cgroup.events").read_text()
        except OSError:
            return False

    def create(self, shape: Shape) -> None:
        """Create its disk and its cable, which stay when it is switched off."""
        for part in ("up/etc", "work", "root", "data"):
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        (self.directory / "up/etc/hostname").write_text(self.name + "\n")
        (self.directory / "up/etc/hosts").write_text(names_file(self.name))
        do("truncate", "-s", shape.disk, self.directory / "data.img")
        for each in range(1, shape.blanks + 1) if shape.blank else ():
            do("truncate", "-s", shape.blank, self.directory / f"blank{each}.img")
        do("mkfs.ext4", "-q", "-E", "lazy_itable_init=1,nodiscard", "-m", "0", self.directory / "data.img")
        do("ip", "netns", "add", self.space)
        do(
            "ip",
            "link",
            "add",
            self.port,
            "netns",
            self.switch,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            self.space,
        )
        do("ip", "-n", self.switch, "link", "set", self.port, "master", "br0", "up")
        # With another hardware address, a new machine would have to announce itself to hosts that know the old address.
        for words in (
            "link set lo up",
            f"link set eth0 address 02:00:00:66:00:{number(self.name):02x}",
            f"addr add {self.address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {CONTROL}",
        ):
            do("ip", "-n", self.space, *words.split())

    def power_on(self, base: Path) -> None:
        """Switch it on, without waiting for it."""
        if self.running:
            return
        self._group.mkdir(exist_ok=True)
        (self._group / "cgroup.freeze").write_text("0")
        _loop_devices(self._root)
        environment = {
            **os.environ,
            "D": str(self.directory),
            "GROUP": str(self._group),
            "BASE": str(base),
            "NAME": self.name,
            "SPACE": self.space,
        }
        argv = ["unshare", "-m", "--propagation", "private", "sh", "-c", POWER_ON]
        with open(self.directory / "console.log", "ab") as log:
            # The container outlives this process: `destroy` switches labs off.
            subprocess.Popen(
                argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )
        deadline = time.monotonic() + START_S
        while not self.running:
            self._waited(deadline, "was not switched on")

    def _waited(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            log = self.directory / "console.log"
            said = log.read_text(errors="replace")[-1500:] if log.exists() else ""
            raise LabError(f"{self.name} {what} in time; its console: {said}")
        time.sleep(POLL_S)

    def first(self) -> int:
        """The process id of the host's first process on this machine."""
        for file in sorted(self._group.rglob("cgroup.procs")):
            for pid in file.read_text().split():
                try:
                    status = Path("/proc", pid, "status").read_text()
                except OSError:
                    continue
                spaces = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
                if len(spaces) > 1 and spaces[-1] == "1":
                    return int(pid)
        raise LabError(f"{self.name} does not run")

    def stop(self) -> None:
        """Shut it down cleanly, as `poweroff` does, and wait for the end."""
        if self.running:
            # systemd's signal for that (systemd(1), SIGRTMIN+4).
            os.kill(self.first(), signal.SIGRTMIN + 4)
            self._ended("did not switch itself off")

    def kill(self) -> None:
        """Cut its power: all its processes end at the same time."""
        if self.running:
            (self._group / "cgroup.kill").write_text("1")
            self._ended("did not end")

    def _ended(self, what: str) -> None:
        deadline = time.monotonic() + STOP_S
        while self.running:
            self._waited(deadline, what)
        if not self._group.exists():
            return
        for group in [*sorted((path for path in self._group.rglob("*") if path.is_dir()), reverse=True), self._group]:
            try:
                group.rmdir()
            except OSError as error:
                raise LabError(f"{group}: {error}") from None
        self._release()

    def _release(self) -> None:
        """Release the devices of the blank disks, which no mount holds."""
        for blank in self.directory.glob("blank*.img"):
            for line in do("losetup", "--noheadings", "--output", "NAME", "--associated", blank).splitlines():
                do("losetup", "-d", line.strip())

    def freeze(self, frozen: bool) -> None:
        """Freeze or thaw all its processes: a machine that hangs keeps its connections."""
        if not self.running:
            raise LabError(f"{self.name} does not run")
        (self._group / "cgroup.freeze").write_text("1" if frozen else "0")

    def plug(self, plugged: bool) -> None:
        """Connect its cable to the switch, or disconnect it."""
        do("ip", "-n", self.switch, "link", "set", self.port, "up" if plugged else "down")

    def remove(self) -> None:
        """Kill it, and remove all its files: a lost machine."""
        self.kill()
        self._release()
        if Path("/run/netns", self.space).exists():
            # The cable vanishes with its namespace, but only when no process holds that: the next host would lack its
            # cable.
            with suppress(LabError):
                do("ip", "-n", self.switch, "link", "del", self.port)
            do("ip", "netns", "del", self.space)
        deadline = time.monotonic() + STOP_S
        while self.directory.exists():
            # A mount of a process that just ended may still exist.
            shutil.rmtree(self.directory, ignore_errors=True)
            if self.directory.exists():
                self._waited(deadline, "could not be removed")


def _loop_devices(root: Path) -> None:
    """Create enough device files for the disks: without udev, they are not created automatically."""
    with locked(root / "devices.lock"):
        for minor in range(4 * MOST):
            path = f"/dev/loop{minor}"
            if not os.path.exists(path):
                os.mknod(path, 0o600 | 0o060000, os.makedev(7, minor))
