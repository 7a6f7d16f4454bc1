"""On a host: an archive for the diagnosis of a problem by others: logs, configuration, metrics, versions, state of the
cluster.

usage: support_bundle.py ARCHIVE < settings.json

The settings are {"host", "since", "lines", "command", "clusters", "metrics_url", "metrics_token_file", "authority",
"directories"}; `clusters` are files with a login, the first one that exists is used; `metrics_url` is empty on a host
without a broker.

No secret leaves the host. A text counts as a secret if one of these is true: the name of its setting is that of a
secret, its form is that of a secret (keys in PEM, logins, tokens), or it occurs in a file of this host that has
secrets. Files are read up to a limit, and the archive says what was cut off. The program uses only the standard
library, because the release itself may be broken.
"""

from __future__ import annotations

import glob
import io
import json
import os
import re
import ssl
import subprocess
import sys
import tarfile
import time
import urllib.request
from fractions import Fraction
from typing import Any, Iterable

HIDDEN = "<redacted>"
# Durations: broker_cy/client/quantities.py.
PART = re.compile(r"([0-9](?:_?[0-9])*(?:\.[0-9]+)?)[ ]?(us|ms|min|m|s|h|d|w)\s*")
MICROSECONDS = {
    "us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "min": 60 * 10**6, "h": 3_600 * 10**6, "d": 86_400 * 10**6,
    "w": 604_800 * 10**6,
}  # fmt: skip
DURATION_CHARACTERS_MAX = 100
COMMAND_S = 60
TEXT_BYTES_MAX = 16 << 20  # of one file in the archive
UNITS = (
    "broker-cy.service",
    "broker-dash.service",
    "broker-registry.service",
    "broker-mirror.service",
    "broker-streams-*.service",
    "broker-cy-alerts.service",
    "broker-analytics-ingest.service",
    "broker-analytics-report.service",
    "broker-load-worker@*.service",
)
CONFIGURATION = (
    "/etc/broker-cy/*",
    "/etc/broker-cy/*/*",
    "/etc/broker-cy/streams/*/streams.properties",
    "/etc/systemd/system/broker-*",
    "/etc/sysctl.d/*broker*",
    "/etc/prometheus/broker-cy/*",
    "/etc/systemd/journald.conf.d/*",
    "/etc/security/limits.d/*broker*",
)
# Files that consist of a secret: the archive has only their names and sizes.
WHOLE_SECRETS = re.compile(r"(password|secret|token|\.key)$|(^|/)(node\.pem|key\.pem|ca\.key)$")
# Settings whose value is a secret, and settings that only name a file or a variable with a secret.
SECRET_NAME = re.compile(r"(?i)(password|passphrase|secret|token|credential|jaas|keystore\.key|webhook|api[_-]?key)")
NO_SECRET_NAME = re.compile(r"(?i)(\.file|_file|\.env|\.location|endpoint\.url|lifetime\.ms|time\.ms|interval\.ms)$")
SETTING = re.compile(r"^(\s*(?:export\s+)?[\"']?([A-Za-z0-9_.>-]+)[\"']?\s*[=:]\s*)(\S.*)$")
# Secrets by their form, regardless of the name of their setting.
FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S), HIDDEN),
    (
        re.compile(r"(?i)((?:password|passwd|secret|token|hmac)[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;\]\"']+)"),
        r"\1" + HIDDEN,
    ),
    (re.compile(r"(?i)(authorization:\s*\w+\s+)\S+"), r"\1" + HIDDEN),
    (re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}"), r"\1" + HIDDEN),
    (re.compile(r"(https?://)[^\s/@:]+:[^\s/@]+@"), r"\1" + HIDDEN + "@"),
    (re.compile(r"(https?://[^\s\"'?]+\?)[^\s\"']+"), r"\1" + HIDDEN),
    (re.compile(r"\$argon2id?\$\S+"), HIDDEN),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), HIDDEN),
)
# The whole URL of a webhook is a secret: everyone who knows it may post.
WEBHOOK = re.compile(r"^\s*url\s*=\s*\"([^\"]+)\"", re.M)
SECRET_CHARACTERS_MIN = 8  # shorter texts occur in others by chance


class Redactor:
    """Removes secrets from texts."""

    def __init__(self, known: Iterable[str]) -> None:
        # The longest first, because a longer secret may contain a shorter one.
        self._known = sorted((each for each in known if len(each) >= SECRET_CHARACTERS_MIN), key=len, reverse=True)

    def clean(self, text: str) -> str:
        """Return the text without secrets."""
        for each in self._known:
            text = text.replace(each, HIDDEN)
        for pattern, replacement in FORMS:
            text = pattern.sub(replacement, text)
        return "\n".join(map(self._line, text.split("\n")))

    @staticmethod
    def _line(line: str) -> str:
        found = SETTING.match(line)
        if found is None or not SECRET_NAME.search(found[2]) or NO_SECRET_NAME.search(found[2]):
            return line
        return found[1] + HIDDEN


def secrets_of(path: str, text: str) -> set[str]:
    """Return the secrets in a file of configuration: each may also occur in a log."""
    if WHOLE_SECRETS.search(path):
        return {text.strip(), *(line.strip() for line in text.split("\n"))} - {""}
    found = set(WEBHOOK.findall(text)) if path.endswith("alerts.toml") else set()
    for line in text.split("\n"):
        setting = SETTING.match(line)
        if setting is None or not SECRET_NAME.search(setting[2]) or NO_SECRET_NAME.search(setting[2]):
            continue
        value = setting[3].strip()
        found.add(value.strip("\"'"))
        found.update(re.findall(r"(?:password|secret)\s*=\s*\"([^\"]+)\"", value))
    return found


def read(path: str) -> str:
    """Return the beginning of a file."""
    with open(path, "rb") as file:
        return file.read(TEXT_BYTES_MAX).decode(errors="replace")


def run(*argv: str, environment: dict[str, str] = {}) -> str:  # noqa: B006 (is not changed)
    """Return the output of a command, or the reason why it failed."""
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_S, check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8", **environment},
        )  # fmt: skip
    except FileNotFoundError:
        return f"{argv[0]}: not found on this host\n"
    except subprocess.TimeoutExpired:
        return f"{' '.join(argv)}: no answer within {COMMAND_S} s\n"
    text = done.stdout.decode(errors="replace")
    return text if done.returncode == 0 else f"{text}\n[exit code {done.returncode}]\n"


def metrics(settings: dict[str, Any]) -> str:
    """Return the page of metrics, or the reason why it is missing."""
    request = urllib.request.Request(settings["metrics_url"])
    try:
        if os.path.exists(settings["metrics_token_file"]):
            request.add_header("Authorization", f"Bearer {read(settings['metrics_token_file']).split()[0]}")
        context = None
        if settings["metrics_url"].startswith("https:"):
            context = ssl.create_default_context(cafile=settings["authority"])
        with urllib.request.urlopen(request, timeout=COMMAND_S, context=context) as answer:
            text: str = answer.read(TEXT_BYTES_MAX).decode(errors="replace")
            return text
    except (OSError, ValueError) as error:
        return f"{settings['metrics_url']}: {error}\n"


def state(settings: dict[str, Any]) -> dict[str, str]:
    """Return the state of the cluster. Each host asks, because hosts may get different answers."""
    logins = [path for path in settings["clusters"] if os.path.exists(path)]
    if not logins or not os.path.exists(settings["command"]):
        return {"cluster/none.txt": f"{settings['command']}, or a login for it, is not on this host\n"}
    asked = {
        "describe": ("cluster", "describe"),
        "health": ("cluster", "health"),
        "features": ("cluster", "features"),
        "quorum": ("quorum", "show"),
        "brokers": ("brokers", "list"),
        "topics": ("topics", "list", "--internal"),
        "topics-offline": ("topics", "list", "--offline", "--below-min-isr", "--under-replicated"),
        "groups": ("groups", "list"),
        "reassignments": ("reassign", "status"),
        "log-dirs": ("log-dirs",),
        "events": ("events", "--since", settings["since"]),
        "alerts": ("alerts",),
    }
    environment = {"BROKER_CY_CLUSTERS": logins[0]}
    return {
        f"cluster/{name}.txt": run(settings["command"], *words, "--timeout", "15", environment=environment)
        for name, words in asked.items()
    }


def host(settings: dict[str, Any]) -> dict[str, str]:
    """Return the state of the host."""
    found = {
        "host/os-release.txt": read("/etc/os-release"),
        "host/uname.txt": run("uname", "-a"),
        "host/uptime.txt": run("uptime"),
        "host/memory.txt": read("/proc/meminfo"),
        "host/cpu.txt": run("lscpu"),
        "host/disks.txt": run("df", "-hT") + run("df", "-i") + run("lsblk", "-f"),
        "host/mounts.txt": read("/proc/self/mounts"),
        "host/addresses.txt": run("ip", "address") + run("ip", "route"),
        "host/sockets.txt": run("ss", "-tlnp") + run("ss", "-s"),
        "host/clock.txt": run("timedatectl") + run("date", "--utc", "--iso-8601=ns"),
        "host/sysctl.txt": run("sysctl", "vm", "fs.file-max", "net.core", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
        "host/processes.txt": run("ps", "-eo", "pid,user,pcpu,pmem,rss,nlwp,etime,comm"),
        "host/units.txt": run("systemctl", "list-units", "--all", "--no-pager", "broker-*", "prometheus*"),
        "host/status.txt": run("systemctl", "status", "--no-pager", "--lines=0", "broker-*"),
        "host/kernel.txt": run("journalctl", "--dmesg", "--no-pager", "--lines=2000"),
        "host/files.txt": run("ls", "-l", "--time-style=full-iso", "/opt/broker-cy", "/opt/broker-cy/releases")
        + run("ls", "-lR", "--time-style=full-iso", "/etc/broker-cy"),
        "versions/python.txt": run("/opt/broker-cy/current/bin/python", "-m", "pip", "freeze"),
        "versions/broker-cy.txt": run(settings["command"], "--version"),
    }
    for directory in settings["directories"]:
        name = directory.strip("/").replace("/", "_")
        found[f"host/size-{name}.txt"] = run("du", "-h", "--max-depth=1", directory)
    for unit in UNITS:
        argv = ["journalctl", "--no-pager", "--utc", "-o", "short-iso-precise", "-u", unit]
        text = run(*argv, f"--since={journal_time(settings['since'])}", f"--lines={settings['lines']}")
        if "-- No entries --" not in text:
            found[f"logs/{unit.replace('@*', '')}.log"] = text
    return found


def journal_time(since: str) -> str:
    """Convert a time such as `-2d` of our commands for journalctl, where `-2m` can mean months: whole microseconds.

    Durations have the form of broker_cy/client/quantities.py, which cannot be imported here; one test compares both.
    """
    text = since[1:].strip()
    duration = Fraction(0)
    at = 0
    part = PART.match(text) if since.startswith("-") and len(text) <= DURATION_CHARACTERS_MAX else None
    while part is not None:
        duration += Fraction(part[1].replace("_", "")) * MICROSECONDS[part[2]]
        at = part.end()
        part = PART.match(text, at)
    if not text or at != len(text) or duration % 1000 or duration >= (1 << 63) * 1000:
        raise SystemExit(f"since={since!r}: a time ago such as -15min, -1h30m, -12h or -2d is expected")
    # journalctl counts in 64 bits, and nothing was logged before 1970.
    return f"-{min(int(duration), time.time_ns() // 1000)}us"


def configuration() -> tuple[dict[str, str], set[str]]:
    """Return the configuration files, and the secrets in them."""
    found: dict[str, str] = {}
    known: set[str] = set()
    for path in sorted({path for pattern in CONFIGURATION for path in glob.glob(pattern) if os.path.isfile(path)}):
        try:
            text = read(path)
        except OSError as error:
            text = f"cannot be read: {error}\n"
        known |= secrets_of(path, text)
        is_secret = WHOLE_SECRETS.search(path)
        found[f"configuration{path}"] = f"{HIDDEN}: {os.path.getsize(path)} bytes\n" if is_secret else text
    return found, known


def collect(settings: dict[str, Any]) -> dict[str, str]:
    """Return the texts of the archive, without secrets."""
    texts, known = configuration()
    # The settings contain secrets from elsewhere in the inventory; they are removed, too.
    redactor = Redactor(known | set(settings.get("secrets", ())))
    texts.update(host(settings))
    texts.update(state(settings))
    if settings["metrics_url"]:
        texts["metrics.txt"] = metrics(settings)
    return {name: redactor.clean(text) for name, text in texts.items()}


def write(path: str, host_name: str, texts: dict[str, str]) -> None:
    """Write the archive, which only root can read."""
    cut: list[str] = [name for name, text in texts.items() if len(text.encode()) > TEXT_BYTES_MAX]
    texts["README.txt"] = (
        f"Support bundle of {host_name}, {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}. "
        f"Secrets are replaced by {HIDDEN}.\n"
        + "".join(f"{name}: only the last {TEXT_BYTES_MAX >> 20} MiB\n" for name in cut)
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in sorted(texts.items()):
            content = text.encode()[-TEXT_BYTES_MAX:]
            member = tarfile.TarInfo(f"{host_name}/{name}")
            member.size, member.mtime, member.mode = len(content), int(time.time()), 0o644
            archive.addfile(member, io.BytesIO(content))


def main() -> None:
    """Write the archive named on the command line."""
    settings = json.load(sys.stdin)
    os.umask(0o077)
    texts = collect(settings)
    write(sys.argv[1], settings["host"], texts)
    print(json.dumps({"files": len(texts), "bytes": os.path.getsize(sys.argv[1])}))


if __name__ == "__main__":
    main()
