"""Runs on a host as `python3 -c TEXT ACT`, reads JSON from the standard input, prints JSON, and changes nothing.

`ask` describes the host, and opens listeners on the free ports of the broker, so that the other hosts can try them;
they end after `listen_s`. `reach` tries the listeners of other hosts and compares the clocks. `stop` ends the
listeners. `disks` describes devices for os_tuning, and `place` the mount point of a new disk. The file uses only the
standard library and runs with Python 3.8, because it must be able to report that a host is too old. It is one long
file because the host gets it as one text.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import json
import os
import platform
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# A file system that does not answer, or a Python that hangs, is reported and not waited for.
COMMAND_S = 10
# The time limit for a peer to accept a connection: a lost packet is sent again after 1 and after 3 seconds.
CONNECT_S = 4
# The signatures of file systems, RAID members and partition tables that blkid reports by name.
BLKID_TAGS = ("TYPE", "PTTYPE", "UUID")
STA_UNSYNC = 0x40
LISTEN = "0A"


def output(*argv: str) -> tuple[int, str]:
    """The exit code and the output of a command; 127 and the reason if it cannot be run or does not end."""
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, str(error)
    return done.returncode, done.stdout.decode(errors="replace").strip()


def text_of(path: str) -> str:
    """The content of a small file, or nothing if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def assignments(text: str) -> dict[str, str]:
    """`NAME=value` lines, as of os-release and of meta.properties, without quotes."""
    lines = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, value in lines}


def system() -> dict[str, Any]:
    release = assignments(text_of("/etc/os-release"))
    memory = re.search(r"MemTotal:\s+(\d+) kB", text_of("/proc/meminfo"))
    limit = text_of("/sys/fs/cgroup/memory.max").strip()
    bytes_ = int(memory.group(1)) * 1024 if memory else 0
    return {
        "os": release.get("ID", ""),
        "os_version": release.get("VERSION_ID", ""),
        "os_name": release.get("PRETTY_NAME", ""),
        "architecture": platform.machine(),
        "memory_bytes": min(bytes_, int(limit)) if limit.isdigit() else bytes_,
        "root": os.geteuid() == 0,
        "systemd": os.path.isdir("/run/systemd/system"),
        "container": output("systemd-detect-virt", "--container")[1],
    }


def python(path: str) -> dict[str, Any]:
    """The version of the Python that is to run the broker, and whether it can create virtual environments."""
    code, said = output(path, "-c", "import platform; print(platform.python_version())")
    venv, why = output(path, "-c", "import ensurepip, venv") if code == 0 else (1, "")
    return {"path": path, "version": said if code == 0 else None, "error": said, "venv": venv == 0, "venv_error": why}


class Timex(ctypes.Structure):
    """The used part of `struct timex` of adjtimex(2), with room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def clock() -> dict[str, Any]:
    """The kernel's view of the clock; `synchronised` is None if a container may not query it."""
    timex, synchronised, error_us = Timex(), None, None
    with contextlib.suppress(OSError, AttributeError):
        if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) >= 0:
            synchronised, error_us = not timex.status & STA_UNSYNC, int(timex.maxerror)
    return {"time": time.time(), "synchronised": synchronised, "max_error_us": error_us}


def mounts() -> list[dict[str, str]]:
    """The mounts of the host, in their order, from /proc/self/mountinfo."""
    found = []
    for line in text_of("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, source, *_) = left.split(), right.split()
        path = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal.group(1), 8)), fields[4])
        found.append({"path": path, "options": fields[5], "type": kind, "source": source, "device": fields[2]})
    return found


def within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def directory(path: str, mounted: list[dict[str, str]]) -> dict[str, Any]:
    """The place of a directory that exists or would be created: its file system, the free space, and the node that it
    belongs to.
    """
    existing = os.path.realpath(path)
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    at = [each["path"] for each in mounted if within(os.path.realpath(path), each["path"])][-1]
    if error := unreadable(at):
        return {"path": path, "error": f"{at} does not answer ({error})"}
    if not os.path.isdir(existing):
        return {"path": path, "error": f"{existing} is not a directory"}
    space = os.statvfs(existing)
    mount = [each for each in mounted if within(existing, each["path"])][-1]
    meta = assignments(text_of(os.path.join(path, "meta.properties")))
    return {
        "path": path,
        "exists": os.path.isdir(path),
        "mount": mount["path"],
        "file_system": mount["type"],
        "source": mount["source"],
        "read_only": "ro" in mount["options"].split(","),
        "device": os.stat(existing).st_dev,
        "on_root": os.stat(existing).st_dev == os.stat("/").st_dev or mount["path"] == "/",
        "free_bytes": space.f_bavail * space.f_frsize,
        "metadata": os.path.isdir(os.path.join(path, "__cluster_metadata-0")),
        "node_id": meta.get("node.id"),
        "cluster_id": meta.get("cluster.id"),
    }


def unreadable(path: str) -> str:
    """Why the file system of a directory does not answer; empty if it does."""
    try:
        os.listdir(path)
        os.statvfs(path)
    except PermissionError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def disk(path: str, mounted: list[dict[str, str]]) -> dict[str, Any]:
    """A device that os_tuning will format or mount. `state` is blank, xfs, dead, other or absent; `content` says why.
    A dead one is mounted, and its file system does not answer.
    """
    try:
        found = os.stat(path)
    except OSError as error:
        return {"device": path, "state": "absent", "content": error.strerror}
    if not stat.S_ISBLK(found.st_mode):
        return {"device": path, "state": "absent", "content": "it is not a block device"}
    real = os.path.realpath(path)
    code, said = output("blkid", "--probe", "--output", "export", real)
    tags = {name: value for name, value in assignments(said).items() if name in BLKID_TAGS} if code == 0 else {}
    number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    sys_block = f"/sys/dev/block/{number}"
    parts = [os.path.basename(part) for part in glob.glob(f"{sys_block}/{os.path.basename(real)}*")]
    parts += os.listdir(f"{sys_block}/holders") if os.path.isdir(f"{sys_block}/holders") else []
    at = [each["path"] for each in mounted if each["device"] == number]
    content = [f"{name} {value}" for name, value in sorted(tags.items())]
    content += [f"used by {name}" for name in sorted(parts)] + [f"mounted at {each}" for each in at]
    # blkid exits with 2 if it finds nothing, and with 8 if its findings are ambiguous.
    if code not in (0, 2):
        content.append(said or f"blkid ended with {code}")
    state = "xfs" if tags.get("TYPE") == "xfs" and not parts else "other" if content else "blank"
    errors = [error for error in map(unreadable, at) if error]
    if errors:
        state, content = "dead", [f"mounted at {at[0]}, {errors[0]}"]
    return {"device": path, "state": state, "content": ", ".join(content), "uuid": tags.get("UUID", ""), "mounted": at}


def resolved(address: str) -> dict[str, Any]:
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return {"addresses": [], "error": str(getattr(error, "strerror", None) or error)}
    return {"addresses": sorted({str(entry[4][0]) for entry in found}), "error": ""}


def own(address: str) -> bool:
    """Whether a numeric address is one of this host: only then can a socket be bound to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.bind((address, 0))
        return True
    return False


def owners() -> dict[str, dict[str, Any]]:
    """The processes that hold sockets, by the number of the socket; only of processes that this user may inspect."""
    found: dict[str, dict[str, Any]] = {}
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            target = os.readlink(link)
            if target.startswith("socket:["):
                pid = link.split("/")[2]
                if target[8:-1] not in found:
                    found[target[8:-1]] = {"pid": int(pid)}
    for owner in found.values():
        owner["command"] = text_of(f"/proc/{owner['pid']}/comm").strip()
        groups = text_of(f"/proc/{owner['pid']}/cgroup").strip().splitlines()
        units = re.findall(r"[^/]+\.(?:service|scope|socket)", groups[-1]) if groups else []
        owner["unit"] = units[-1] if units else ""
    return found


def decoded(text: str) -> str:
    """A hexadecimal address of /proc/net/tcp or tcp6: words of 4 bytes in the order of the machine."""
    words = [
        bytes.fromhex(text[at : at + 8])[:: -1 if sys.byteorder == "little" else 1] for at in range(0, len(text), 8)
    ]
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, b"".join(words))


def listening() -> Iterator[tuple[str, int, str]]:
    """The address, the port and the number of each listening socket of the host."""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in text_of(path).splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN:
                address, port = fields[1].split(":")
                yield decoded(address), int(port, 16), fields[9]


def ports(wanted: dict[str, int]) -> dict[str, Any]:
    """The programs that listen at the broker's ports. The broker listens at all addresses, so a program at any address
    is a conflict.
    """
    taken = {port: number for _, port, number in listening()}
    holders = owners() if any(port in taken for port in wanted.values()) else {}
    unknown: dict[str, Any] = {"pid": 0, "command": "", "unit": ""}
    return {
        what: {
            "port": port,
            "taken": port in taken,
            "owner": holders.get(taken[port], unknown) if port in taken else None,
        }
        for what, port in wanted.items()
    }


def serve(sockets: list[socket.socket], name: str, listen_s: float) -> None:
    """Sends the name of the host and its time to each connection, for `listen_s` seconds."""
    import selectors

    waiting = selectors.DefaultSelector()
    for each in sockets:
        each.setblocking(False)
        waiting.register(each, selectors.EVENT_READ)
    end = time.monotonic() + listen_s
    while (left := end - time.monotonic()) > 0:
        for key, _ in waiting.select(left):
            with contextlib.suppress(OSError):
                peer, _ = key.fileobj.accept()  # type: ignore[union-attr]
                with peer:
                    peer.sendall(json.dumps({"name": name, "time": time.time()}).encode() + b"\n")


def opened(port: int) -> socket.socket:
    """A listener at all addresses, including IPv6 if the host supports it."""
    both = socket.has_dualstack_ipv6()
    with contextlib.ExitStack() as on_failure:
        each = socket.socket(socket.AF_INET6 if both else socket.AF_INET, socket.SOCK_STREAM)
        on_failure.callback(each.close)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if both:
            each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        each.bind(("::" if both else "0.0.0.0", port))
        each.listen(128)
        on_failure.pop_all()
    return each


def listeners(options: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Opens listeners at the free ports, in a separate process that continues after the host has answered."""
    sockets: list[socket.socket] = []
    errors: dict[str, str] = {}
    for what, state in found.items():
        if not state["taken"]:
            try:
                sockets.append(opened(state["port"]))
            except OSError as error:
                errors[what] = error.strerror or str(error)
    pid = 0
    if sockets:
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                null = os.open(os.devnull, os.O_RDWR)
                for fd in (0, 1, 2):
                    os.dup2(null, fd)
                serve(sockets, options["name"], options["listen_s"])
            finally:
                os._exit(0)
    return {"listening": errors, "pid": pid}


def ask(options: dict[str, Any]) -> dict[str, Any]:
    mounted = mounts()
    answer: dict[str, Any] = {
        **{name: options[name] for name in ("name", "address", "started")},
        **system(),
        "python": python(options["python"]),
        "directories": [directory(path, mounted) for path in options["directories"]],
        "install": directory(options["install"], mounted),
        "disks": [disk(str(each["device"]), mounted) for each in options["disks"]],
    }
    if options["ports"]:
        answer["ports"] = ports(options["ports"])
        answer.update(listeners(options, answer["ports"]))
        answer["own_addresses"] = [address for address in resolved(options["address"])["addresses"] if own(address)]
    # The clock last: the control node compares it with its own when the answer arrives.
    return {**answer, "clock": clock()}


def tried(target: dict[str, Any]) -> dict[str, Any]:
    """One connection to a listener of another host. Its clock is ahead by `ahead_s`, plus or minus `bound_s`."""
    result: dict[str, Any] = {**target, "error": "", "said": None}
    try:
        begun = time.time()
        with socket.create_connection((target["address"], target["port"]), timeout=CONNECT_S) as peer:
            if not target["listener"]:
                return result
            line = b""
            while not line.endswith(b"\n") and len(line) < 1024 and (part := peer.recv(1024)):
                line += part
            received = time.time()
        answer = json.loads(line)
        # The peer read its clock at some time between these two.
        result.update(
            said=answer["name"], ahead_s=answer["time"] - (begun + received) / 2, bound_s=(received - begun) / 2
        )
    except (OSError, UnicodeError) as error:
        late = isinstance(error, (TimeoutError, socket.timeout)) or getattr(error, "errno", 0) == errno.ETIMEDOUT
        refused = getattr(error, "errno", 0) == errno.ECONNREFUSED
        result["error"] = f"no answer within {CONNECT_S} s" if late else "connection refused" if refused else str(error)
    except (ValueError, KeyError, TypeError):
        result["said"] = ""
    return result


def reach(options: dict[str, Any]) -> dict[str, Any]:
    """Tries those listeners of the brokers that this host needs; `answers` has the output of the brokers' hosts."""
    answers = [json.loads(answer) for answer in options["answers"]]
    names = {answer["address"]: resolved(answer["address"]) for answer in answers}
    targets = [
        {
            "name": answer["name"],
            "address": answer["address"],
            "port": state["port"],
            "what": what,
            # A running broker, or another program, which is reported anyway, sends no greeting.
            "listener": not state["taken"],
        }
        for answer in answers
        for what, state in answer.get("ports", {}).items()
        if what in options["needs"]
        and names[answer["address"]]["addresses"]
        # Behind a NAT a node often cannot reach itself; only a single node has no other host to try it.
        and (answer["name"] != options["name"] or len(answers) == 1)
    ]
    with ThreadPoolExecutor(max_workers=32) as pool:
        return {"tried": list(pool.map(tried, targets)), "names": names}


def stop(options: dict[str, Any]) -> dict[str, Any]:
    """Ends the listeners of the process `pid`, and waits until their ports are free again."""
    pid = json.loads(options["answer"])["pid"]
    if b"\0ask\0" not in text_of(f"/proc/{pid}/cmdline").encode():
        return {}
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + COMMAND_S
        while time.monotonic() < end:
            os.kill(pid, 0)
            time.sleep(0.01)
    return {}


def disks(options: dict[str, Any]) -> dict[str, Any]:
    """For the role os_tuning."""
    mounted = mounts()
    return {"disks": [{**each, **disk(str(each["device"]), mounted)} for each in options["disks"]]}


def place(options: dict[str, Any]) -> dict[str, Any]:
    """For replace_disk: the mount point `path` of a failed disk. `disk` is the new device, None if the operator mounts
    it; `is_new` says whether it is mounted there. `foreign` has everything there that is not from the node.
    """
    mounted, path, device = mounts(), options["path"], options["device"]
    at = [each for each in mounted if each["path"] == path][-1:]
    error = unreadable(path) if at else ""
    found = disk(device, mounted) if device else None
    return {
        "path": path,
        "source": at[0]["source"] if at else "",
        "error": error,
        "disk": found,
        "is_new": bool(at) and (found is None or path in found.get("mounted", [])),
        "foreign": sorted(foreign(path, options["directories"], str(options["node_id"]))) if at and not error else [],
    }


def foreign(path: str, directories: list[str], node_id: str) -> Iterator[str]:
    """The files below a mount point that are not in directories of a node."""
    for directory in directories:
        names = set(os.listdir(directory)) - {"lost+found"} if os.path.isdir(directory) else set()
        owner = assignments(text_of(os.path.join(directory, "meta.properties"))).get("node.id")
        if names and owner != node_id:
            yield f"{directory} of node {owner}" if owner else directory
    for name in os.listdir(path):
        entry = os.path.join(path, name)
        if name != "lost+found" and not any(within(each, entry) or each == path for each in directories):
            yield entry


if __name__ == "__main__":
    acts = {"ask": ask, "disks": disks, "place": place, "reach": reach, "stop": stop}
    print(json.dumps(acts[sys.argv[1]](json.load(sys.stdin))))
