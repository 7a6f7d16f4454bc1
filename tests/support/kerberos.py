"""A Kerberos key distribution center on the loopback interface, with all its files in one directory."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from bench.launch.nodes import free_ports
from broker_cy.launch.processes import die_with_parent, run
from tests.support.wait import until

REALM: Final = "EXAMPLE.COM"
MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def missing() -> str | None:
    """The reason why Kerberos tests cannot run here."""
    absent = [name for name in _PROGRAMS if _program(name) is None]
    if importlib.util.find_spec("gssapi") is None:
        absent.append("python-gssapi (make .venv/.gssapi)")
    return f"not installed: {', '.join(absent)}" if absent else None


class Kdc:
    """A running KDC; `environment` has the variables for its users."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.config = directory / "krb5.conf"
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
        )
        (directory / "kdc.conf").write_text(
            f'[kdcdefaults]\n kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{self.port}\n'
            f"[realms]\n {REALM} = {{\n  database_name = {directory}/principal\n  key_stash_file = {directory}/stash\n"
            f"  acl_file = {directory}/kadm5.acl\n }}\n"
        )
        self.environment = {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{directory}/tickets",
            "KRB5RCACHENAME": f"file2:{directory}/replays",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        with (self.directory / "kdc.log").open("wb") as log:
            self._process = subprocess.Popen(
                die_with_parent([str(_program("krb5kdc")), "-n", "-r", REALM]),
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=log,
            )

        def listens() -> bool:
            with socket.create_connection(("127.0.0.1", self.port), 1.0):
                return True

        until(listens, "the key distribution center", tolerate=(OSError,))

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def add(self, principal: str, file: str = "") -> Path:
        """Create a principal, and return the file with its key."""
        keytab = self.directory / f"{file or principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
        self.new_key(principal, keytab)
        return keytab

    def new_key(self, principal: str, keytab: Path) -> None:
        """Give the principal another key, which is appended to the file."""
        self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(keytab), principal)

    def log_in(self, principal: str, keytab: Path) -> None:
        """Log in like a person, which puts tickets into a cache."""
        self._run("kinit", "-k", "-t", str(keytab), principal)

    def _run(self, name: str, *arguments: str) -> None:
        run([str(_program(name)), *arguments], env=self.environment)


@contextmanager
def kerberos(directory: Path) -> Iterator[Kdc]:
    """A running KDC, which this process and its children use."""
    kdc = Kdc(directory)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        try:
            kdc.start()
            yield kdc
        finally:
            kdc.stop()


def client_jaas(keytab: Path, principal: str) -> str:
    return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}@{REALM}";'
