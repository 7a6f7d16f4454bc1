"""The authority of role tls on the control node: roles/tls/files/authority.py, without a lab."""

from __future__ import annotations

import datetime
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.deploy.lab import REPOSITORY

PROGRAM = REPOSITORY / "deploy" / "ansible" / "roles" / "tls" / "files" / "authority.py"
RUN_S = 60.0
NODE = "broker-cy-node"


class Control:
    """The directory on a control node, and the requests of the role's runs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "ca"

    def run(self, *hosts: dict[str, Any], **asked: Any) -> subprocess.CompletedProcess[str]:
        wanted = {
            "directory": str(self.directory),
            "given": asked.pop("given", {"certificate": "", "key": "", "passphrase": ""}),
            "step": "",
            "renew_all": False,
            "validity_days": 365,
            "renew_days": 60,
            "authority_days": 3650,
            "organization": "broker-cy",
            "check": False,
            "hosts": list(hosts) or [host()],
            **asked,
        }
        return subprocess.run(
            [sys.executable, "-I", PROGRAM],
            input=json.dumps(wanted),
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )

    def must(self, *hosts: dict[str, Any], **asked: Any) -> dict[str, Any]:
        done = self.run(*hosts, **asked)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def refused(self, *hosts: dict[str, Any], **asked: Any) -> str:
        done = self.run(*hosts, **asked)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        return done.stderr

    def files(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()} if self.directory.exists() else set()


def host(name: str = "n1", certificate: str = "", names: tuple[str, ...] = ("n1", "10.66.0.11")) -> dict[str, Any]:
    return {"name": name, "unit": NODE, "names": list(names), "certificate": certificate}


def certificate_of(issued: str) -> x509.Certificate:
    return x509.load_pem_x509_certificates(issued[issued.index("-----BEGIN CERTIFICATE") :].encode())[0]


def public(issued: str) -> str:
    """The certificates that a host reports, without the key."""
    return issued[issued.index("-----BEGIN CERTIFICATE") :]


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path)


def test_hosts_get_certificates_and_keep_them(control: Control) -> None:
    """The second run issues nothing; other users cannot read the directory."""
    first = control.must()
    issued = certificate_of(first["issued"]["n1"])
    assert issued.subject.rfc4514_string() == f"CN=n1,OU={NODE}"
    names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.66.0.11"]
    issued.verify_directly_issued_by(x509.load_pem_x509_certificate(first["authority"].encode()))
    second = control.must(host(certificate=public(first["issued"]["n1"])))
    assert (second["issued"], second["changed"]) == ({}, [])
    assert second["authority"] == first["authority"]
    assert stat.S_IMODE(control.directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in control.directory.iterdir()} == {0o600}


def test_check_writes_nothing(control: Control) -> None:
    found = control.must(check=True)
    assert (found["changed"], list(found["issued"])) == (["the authority"], ["n1"])
    assert not control.directory.exists()


@pytest.mark.parametrize(
    ("names", "renew_days", "reason"),
    [
        (("n1", "10.66.0.11", "n1.example.org"), 60, "it lacks the names n1.example.org"),
        (("n1",), 366, "it ends in 364 days"),
    ],
)
def test_certificate_that_does_not_do_is_replaced(
    control: Control, names: tuple[str, ...], renew_days: int, reason: str
) -> None:
    certificate = public(control.must()["issued"]["n1"])
    found = control.must(host(certificate=certificate, names=names), renew_days=renew_days)
    assert found["reasons"] == {"n1": reason}
    assert public(found["issued"]["n1"]) != certificate


def test_name_that_no_certificate_can_have_is_refused(control: Control) -> None:
    assert "'a host' is neither a host name nor an address" in control.refused(host(names=("a host",)))


def test_rotation_keeps_hosts_and_clients_together_at_each_step(control: Control) -> None:
    """An ordinary run between two steps does not disturb the rotation."""
    first = control.must()
    before = public(first["issued"]["n1"])
    trusted = control.must(host(certificate=before), step="trust")
    assert first["authority"] in trusted["authority"]
    assert trusted["authority"].count("BEGIN CERTIFICATE") == 2
    assert not trusted["issued"]
    assert control.must(host(certificate=before))["authority"] == trusted["authority"]
    # Nodes that trust the next authority accept this one.
    assert certificate_of(trusted["probe"]).subject.rfc4514_string() == f"CN=rotation,OU={NODE}"
    exchanged = control.must(host(certificate=before), step="exchange")
    assert exchanged["reasons"] == {"n1": "another authority has signed it"}
    assert exchanged["authority"].count("BEGIN CERTIFICATE") == 2
    after = public(exchanged["issued"]["n1"])
    assert control.must(host(certificate=after), step="exchange")["issued"] == {}
    withdrawn = control.must(host(certificate=after), step="withdraw")
    assert first["authority"] not in withdrawn["authority"]
    certificate_of(after).verify_directly_issued_by(x509.load_pem_x509_certificate(withdrawn["authority"].encode()))
    assert control.files() == {"ca.pem", "ca.key"}
    assert control.must(host(certificate=after), step="withdraw")["changed"] == []


def test_next_rotation_waits_for_the_end_of_the_one_before(control: Control) -> None:
    control.must()
    control.must(step="trust")
    control.must(step="exchange")
    assert "rotate_steps=withdraw" in control.refused(step="trust")


# --- an authority of the operator


def authority_files(directory: Path, *, ca: bool = True, days: int = 100, passphrase: bytes = b"") -> dict[str, str]:
    """Certificate and key of an authority, as an operator has them."""
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, directory.name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=200))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        encryption = serialization.BestAvailableEncryption(passphrase)
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    (directory / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / "ca.key").write_bytes(text)
    files = {"certificate": str(directory / "ca.pem"), "key": str(directory / "ca.key")}
    return {**files, "passphrase": passphrase.decode()}


def test_given_authority_signs_and_its_key_stays_where_it_is(control: Control, tmp_path: Path) -> None:
    given = authority_files(tmp_path / "given", passphrase=b"of the operator")
    found = control.must(given=given)
    authority = x509.load_pem_x509_certificate(Path(given["certificate"]).read_bytes())
    issued = certificate_of(found["issued"]["n1"])
    issued.verify_directly_issued_by(authority)
    # A certificate cannot be valid for longer than the authority.
    assert issued.not_valid_after_utc <= authority.not_valid_after_utc
    assert control.files() == {"ca.pem"}


def test_given_authority_takes_over_by_a_rotation_only(control: Control, tmp_path: Path) -> None:
    before = public(control.must()["issued"]["n1"])
    given = authority_files(tmp_path / "given")
    assert "rotate_authority=true" in control.refused(host(certificate=before), given=given)
    for step in ("trust", "exchange"):
        found = control.must(host(certificate=before), given=given, step=step)
    after = public(found["issued"]["n1"])
    control.must(host(certificate=after), given=given, step="withdraw")
    usual = control.must(host(certificate=after), given=given)
    assert (usual["issued"], usual["changed"]) == ({}, [])
    assert usual["authority"] == Path(given["certificate"]).read_text()
    assert control.files() == {"ca.pem"}


@pytest.mark.parametrize(
    ("authority", "changes", "message"),
    [
        ({}, {"key": ""}, "tls_ca_certificate and tls_ca_key belong together"),
        ({}, {"certificate": "/nowhere.pem"}, "tls_ca_certificate=/nowhere.pem: No such file or directory"),
        ({"ca": False}, {}, "CA:TRUE"),
        ({"days": -1}, {}, "ended at"),
        ({"passphrase": b"secret"}, {"passphrase": ""}, "set tls_ca_key_passphrase"),
        ({}, {"passphrase": "of another key"}, "has no passphrase, and one was given"),
        ({"passphrase": b"secret"}, {"passphrase": "wrong"}, "is no private key in PEM that can be read"),
    ],
)
def test_authority_that_cannot_be_used_is_refused(
    control: Control, tmp_path: Path, authority: dict[str, Any], changes: dict[str, str], message: str
) -> None:
    """The message names the setting, and nothing is written."""
    given = {**authority_files(tmp_path / "given", **authority), **changes}
    assert message in control.refused(given=given)
    assert control.files() == set()


def test_key_of_another_authority_is_refused(control: Control, tmp_path: Path) -> None:
    given = authority_files(tmp_path / "given")
    other = authority_files(tmp_path / "other")
    assert "is not the key of" in control.refused(given={**given, "key": other["key"]})
