"""install.py ARGUMENTS...: `uv pip install` into the environment that runs this, from the registry of pip's settings.

uv installs in a second what takes pip a minute. It reads none of pip's settings, so those of files and of PIP_*
variables are translated; variables of uv that are set win. Files in uv's cache are used without asking the registry:
the checksums of the lock file decide what is right. All modules are compiled to byte code, as pip does. Otherwise each
process compiles them again if PYTHONDONTWRITEBYTECODE is set.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

# The variables of uv by the settings of pip, and what is between the items of a list.
_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "proxy": ("ALL_PROXY", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
}
# Settings of all commands, of `pip install`, and of the environment: in pip, the later one wins.
_SECTIONS = ("global", "install", ":env:")


def pip_settings(listed: str) -> dict[str, str]:
    """The output of `pip config list`, by the name of the setting."""
    found: dict[str, str] = {}
    pairs = [line.partition("=") for line in listed.splitlines()]
    for section in _SECTIONS:
        for key, _, value in pairs:
            if key.startswith(f"{section}."):
                found[key.removeprefix(f"{section}.")] = str(ast.literal_eval(value))
    return found


def uv_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """pip's settings as variables of uv. Others than those of the registry have no effect on uv."""
    found = {
        variable: separator.join(settings[name].split())
        for name, (variable, separator) in _VARIABLES.items()
        if settings.get(name, "").strip()
    }
    if "UV_INDEX" in found:
        # As pip: each index may have the file of the lock file.
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return found


def main(arguments: Sequence[str]) -> int:
    """Install what the arguments name; the result is the exit code."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], stdout=subprocess.PIPE, text=True, check=False
    )
    if listed.returncode != 0:
        return listed.returncode
    settings = pip_settings(listed.stdout)
    environment = {**uv_variables(settings), **os.environ}
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable, "--compile-bytecode"]
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        uv.append("--no-index")
    if (
        subprocess.run([*uv, "--offline", *arguments], env=environment, capture_output=True, check=False).returncode
        == 0
    ):
        return 0
    # Something is not in the cache. A failure is shown from now on.
    return subprocess.run([*uv, *arguments], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
