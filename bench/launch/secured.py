"""A listener with TLS, with a login, or both, for a broker on the loopback interface, and the settings of its clients.

The authority, its certificates (P-256) and the password are made for one directory, which only its owner can read. Our
broker and Apache Kafka read the same files.
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bench.launch.private import write_private

USER: Final = "bench"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_DAYS: Final = 30


def secure(directory: Path, protocol: str, host: str) -> tuple[dict[str, str], Path]:
    """Write the files; returns the settings of a broker with one listener named like `protocol`, and the file with
    those of its clients, which present a certificate if the broker requests one.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings = {"security.inter.broker.protocol": protocol}
    client = {"security.protocol": protocol}
    if "SSL" in protocol:
        trusted = _write_certificates(directory, host)
        for found, name in ((settings, "broker"), (client, "client")):
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(directory / f"{name}.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(trusted),
            }
    if "SASL" in protocol:
        password = secrets.token_urlsafe(16)
        settings |= {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": (
                f'{_PLAIN} username="{USER}" password="{password}" user_{USER}="{password}";'
            ),
        }
        login = f'{_PLAIN} username="{USER}" password="{password}";'
        client |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    path = directory / "client.properties"
    write_private(path, "".join(f"{name}={value}\n" for name, value in client.items()))
    return settings, path


def _write_certificates(directory: Path, host: str) -> Path:
    """Return the file with the certificate of the authority."""
    authority = ec.generate_private_key(ec.SECP256R1())
    name = _name("Benchmark Authority")
    certificate = (
        _builder(name, name, authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority, hashes.SHA256())
    )
    for common_name in ("broker", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_name), name, key).add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        pem += builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        write_private(directory / f"{common_name}.pem", pem.decode())
    path = directory / "authority.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
    )
