"""`broker-cy configs` with settings that are secrets."""

from __future__ import annotations

import json
from pathlib import Path

from tests.broker_cy.commands.conftest import Cli
from tests.support import needs
from tests.support.certificates import PASSWORD

needs.require(needs.tls)


def test_secrets_are_read_from_files_and_not_shown(bare: Cli, tmp_path: Path) -> None:
    """If this fails, a terminal, the log of a pipeline or a list of processes has the password of a key store."""
    from tests.support.tls_broker import TlsBroker

    broker = TlsBroker(tmp_path / "broker")
    broker.start()
    try:
        name = "listener.name.ssl.ssl.keystore.password"
        store = broker.authority.issue("broker").write_pkcs12(tmp_path / "new.p12")
        file = tmp_path / "password.txt"
        file.write_text(f"{PASSWORD}\n")
        alter = ["configs", "alter", "broker", "1", "--bootstrap", broker.open_bootstrap]
        alter += ["--set", f"listener.name.ssl.ssl.keystore.location={store}"]
        alter += ["--set", "listener.name.ssl.ssl.keystore.type=PKCS12"]
        tried = bare(*alter, "--set", f"{name}={PASSWORD}", "--dry-run", "--json")
        done = bare(*alter, "--set-file", f"{name}={file}", "--yes")
        for said in (tried, done):
            assert PASSWORD not in said.out + said.err
            assert [name, "-", "set", "(secret)"] in [line.split() for line in said.err.splitlines()]
        assert {each["name"]: each["value"] for each in json.loads(tried.out)["changes"]}[name] == "(secret)"
        missing = tmp_path / "missing"
        assert f"--set-file {missing}: No such file" in bare(*alter, "--set-file", f"{name}={missing}", code=2).err
        file.write_text("wrong")
        assert "the password is wrong" in bare(*alter, "--set-file", f"{name}={file}", code=1).err
    finally:
        broker.close()
