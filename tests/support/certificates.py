"""Certificates for tests: an authority, the certificates that it signs, and the files for Kafka's settings."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PASSWORD: Final = "store-password"
DAY: Final = datetime.timedelta(days=1)


def name_of(common_name: str, unit: str = "Tests") -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Broker"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


class Holder:
    """A key, and its certificate with its chain."""

    def __init__(
        self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, issuer: x509.Certificate
    ) -> None:
        self.key = key
        self.certificate = certificate
        self.issuer = issuer

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def key_pem(self, password: str | None = None) -> str:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        ).decode()

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        """A key store of the type PEM: key and certificates in one file."""
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return path

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> Path:
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own",
                self.key,
                self.certificate,
                [self.issuer],
                serialization.BestAvailableEncryption(password.encode()),
            )
        )
        return path

    def write_jks(self, path: Path, password: str = PASSWORD) -> Path:
        """Write a JKS key store with Java's keytool, which comes with a JVM."""
        source = self.write_pkcs12(path.with_suffix(".from.p12"), password)
        keytool(
            "-importkeystore",
            *("-srckeystore", source, "-srcstoretype", "PKCS12", "-srcstorepass", password),
            *("-destkeystore", path, "-deststoretype", "JKS", "-deststorepass", password, "-noprompt"),
        )
        return path


def keytool(*arguments: str | Path) -> None:
    done = subprocess.run(["keytool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Authority:
    """Signs certificates."""

    def __init__(self, common_name: str = "Test Authority") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        name = name_of(common_name, "Authority")
        self.certificate = (
            self._builder(name, name, self.key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def write_pem(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def write_truststore(self, path: Path, kind: str = "JKS", password: str = PASSWORD) -> Path:
        pem = self.write_pem(path.with_suffix(".from.pem"))
        path.unlink(missing_ok=True)
        keytool(
            *("-importcert", "-noprompt", "-alias", "authority", "-file", pem),
            *("-keystore", path, "-storetype", kind, "-storepass", password),
        )
        return path

    def issue(
        self,
        common_name: str | x509.Name,
        *,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        days: int = 30,
    ) -> Holder:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = name_of(common_name) if isinstance(common_name, str) else common_name
        builder = self._builder(subject, self.certificate.subject, key, days)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
            )
        return Holder(key, builder.sign(self.key, hashes.SHA256()), self.certificate)

    @staticmethod
    def _builder(
        subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 30
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 40 * DAY)
            .not_valid_after(now + days * DAY)
        )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
