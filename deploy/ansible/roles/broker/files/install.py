"""On a host: a release in its own virtual environment, checked before it is used.

Reads {"root", "version", "extras", "archive", "python"} as JSON on the standard input. Packages come only from the
archive. The marker installed.json is written at the end: a release without it is not used and is installed again.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

PIP = ["-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "--no-input", "-q"]
# The wheel of pip in Debian and Ubuntu, from which `python -m venv` would install it.
PIP_WHEELS = "/usr/share/python-wheels/pip-*.whl"
TIME_LIMIT_S = 600


def run(command: list[str], path: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": path} if path else None
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIME_LIMIT_S, check=False, env=environment
    )
    output = done.stdout.decode(errors="replace").strip()
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[:4])} .. failed with {done.returncode}: {output}")
    return output


def main() -> None:
    asked = json.load(sys.stdin)
    os.umask(0o022)
    release = os.path.join(asked["root"], asked["version"])
    marker = os.path.join(release, "installed.json")
    extras = set(asked["extras"])
    if os.path.exists(marker):
        # Extras are added: installed packages do not change, so a process that runs from them is not disturbed.
        with open(marker, encoding="utf-8") as file:
            extras |= set(json.load(file)["extras"])
    elif os.path.exists(release):
        shutil.rmtree(release)
    python = os.path.join(release, "bin", "python")
    # A release does not need its own pip, and installing one takes as long as everything else.
    pip = next(iter(sorted(glob.glob(PIP_WHEELS), reverse=True)), "")
    if not os.path.exists(python):
        run([asked["python"], "-m", "venv", *(["--without-pip"] if pip else []), release])
    wheels = tempfile.mkdtemp(prefix="broker-cy-wheels-")
    try:
        with tarfile.open(asked["archive"]) as archive:
            for member in archive.getmembers():
                if not member.isfile() or os.path.basename(member.name) != member.name:
                    raise SystemExit(f"{asked['archive']}: {member.name} is no plain file")
            archive.extractall(wheels)
        names = f"[{','.join(sorted(extras))}]" if extras else ""
        requirement = f"broker-cy{names}=={asked['version']}"
        run([python, *PIP, "install", "--no-index", "--find-links", wheels, "--only-binary", ":all:", requirement], pip)
    finally:
        shutil.rmtree(wheels, ignore_errors=True)
    shown = run([os.path.join(release, "bin", "broker-cy"), "--version"])
    if asked["version"] not in shown.split():
        raise SystemExit(f"{release}: broker-cy --version says {shown!r}, and {asked['version']} was installed")
    with open(marker + ".new", "w", encoding="utf-8") as file:
        json.dump({"version": asked["version"], "extras": sorted(extras), "shown": shown}, file)
    os.rename(marker + ".new", marker)
    os.unlink(asked["archive"])
    print(shown)


main()
