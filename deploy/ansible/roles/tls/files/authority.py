"""On the control node: the authority of a cluster, and missing certificates of hosts.

Reads the request as JSON on the standard input:

    directory       where the authority is kept: ca.pem and ca.key, during a rotation next.pem or previous.pem as well
    given           {"certificate", "key", "passphrase"}: files of an authority that the operator has; empty for our own
    step            "" for a normal run; "trust", "exchange" or "withdraw" for one step of a rotation
    hosts           {"name", "unit", "names", "certificate"}: the certificate is the one on the host, or empty
    validity_days, renew_days, authority_days, organization
    check           nothing is written

Prints {"authority": PEM, "issued": {host: PEM of key and chain}, "reasons": {host: text}, "probe": PEM, "changed":
[..]}. The keys of hosts are not kept here: a host that lost its key gets a new certificate.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

STEPS = ("", "trust", "exchange", "withdraw")
# Nodes treat every client with a certificate of this unit as a node.
NODE_UNIT = "broker-cy-node"
# Clocks of hosts may be behind that of the control node.
CLOCK_SKEW = datetime.timedelta(hours=1)
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


def day(number: float) -> datetime.timedelta:
    return datetime.timedelta(days=number)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def certificates(text: str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(text.encode()) if text.strip() else []


def pem(found: list[x509.Certificate]) -> str:
    return "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in found)


class Authority:
    """The certificate that signs, with those above it."""

    def __init__(self, chain: list[x509.Certificate]) -> None:
        self.chain = chain
        self.certificate = chain[0]

    def signed(self, certificate: x509.Certificate) -> bool:
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True


class Directory:
    """The files of the authority; only their owner may read them."""

    def __init__(self, path: Path, is_check: bool) -> None:
        self._path = path
        self._is_check = is_check
        self._planned: dict[str, str | None] = {}
        self.changed: list[str] = []

    def read(self, name: str) -> str:
        """Return the content of a file; empty if it does not exist. Content that would be written counts, too."""
        if name in self._planned:
            return self._planned[name] or ""
        path = self._path / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def write(self, name: str, text: str) -> None:
        self._planned[name] = text
        if self._is_check:
            return
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._path / f".{name}.{os.getpid()}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self._path / name)

    def remove(self, name: str) -> None:
        self._planned[name] = None
        if not self._is_check:
            (self._path / name).unlink(missing_ok=True)

    def authority(self, name: str) -> Authority | None:
        found = certificates(self.read(f"{name}.pem"))
        return Authority(found) if found else None


class Given:
    """An authority of the operator: two files; the key is not copied."""

    def __init__(self, asked: dict[str, str]) -> None:
        self.certificate_file, self.key_file = asked["certificate"], asked["key"]
        self._passphrase = asked["passphrase"]
        if bool(self.certificate_file) is not bool(self.key_file):
            raise SystemExit(
                "tls_ca_certificate and tls_ca_key belong together: give both, or none for an own authority"
            )
        self.chain = certificates(self._text("tls_ca_certificate", self.certificate_file)) if self else []
        if self:
            self._check()

    def __bool__(self) -> bool:
        return bool(self.certificate_file)

    @staticmethod
    def _text(setting: str, file: str) -> str:
        try:
            return Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise SystemExit(f"{setting}={file}: {error.strerror} on the control node") from None

    def _check(self) -> None:
        if not self.chain:
            raise SystemExit(f"tls_ca_certificate={self.certificate_file}: has no certificate in PEM")
        first = self.chain[0]
        try:
            constraints = first.extensions.get_extension_for_class(x509.BasicConstraints).value
        except x509.ExtensionNotFound:
            constraints = x509.BasicConstraints(ca=False, path_length=None)
        if not constraints.ca:
            raise SystemExit(
                f"tls_ca_certificate={self.certificate_file}: the first certificate "
                f"({first.subject.rfc4514_string()}) is none "
                "of an authority (CA:TRUE): begin with the one whose key tls_ca_key is"
            )
        if first.not_valid_after_utc <= now():
            raise SystemExit(f"tls_ca_certificate={self.certificate_file}: ended at {first.not_valid_after_utc}")
        if self.key().public_key() != first.public_key():
            raise SystemExit(f"tls_ca_key={self.key_file}: is not the key of {self.certificate_file}")

    def key(self) -> CertificateIssuerPrivateKeyTypes:
        return load_key(self._text("tls_ca_key", self.key_file), self.key_file, self._passphrase)


def load_key(text: str, whose: str, passphrase: str = "") -> CertificateIssuerPrivateKeyTypes:
    try:
        key = serialization.load_pem_private_key(text.encode(), passphrase.encode() or None)
    except TypeError:
        wanted = "has no passphrase, and one was given" if passphrase else "has a passphrase: set tls_ca_key_passphrase"
        raise SystemExit(f"{whose}: {wanted}") from None
    except ValueError as error:
        raise SystemExit(f"{whose}: is no private key in PEM that can be read ({error})") from None
    return key  # type: ignore[return-value]


def new_authority(asked: dict[str, Any]) -> tuple[str, str]:
    """Certificate and key of a generated authority."""
    key = ec.generate_private_key(ec.SECP384R1())
    begin = now()
    # The names of two authorities must differ: otherwise a client confuses them during a rotation.
    common = f"{asked['organization']} authority {begin:%Y-%m-%d %H:%M:%S}"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - CLOCK_SKEW)
        .not_valid_after(begin + day(asked["authority_days"]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(is_authority=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return pem([certificate]), key_pem(key)


def key_pem(key: Any) -> str:
    text: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return text.decode()


def key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        pass
    if HOST_NAME.fullmatch(text) is None:
        raise SystemExit(f"{text!r} is neither a host name nor an address, so no certificate can have it as a name")
    return x509.DNSName(text)


def subject_of(host: dict[str, Any]) -> x509.Name:
    """`CN=host,OU=unit` as Java writes it, which is the reverse of the order in the certificate."""
    unit = x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, host["unit"])
    return x509.Name([unit, x509.NameAttribute(NameOID.COMMON_NAME, host["name"])])


def why_new(host: dict[str, Any], authority: Authority, renew: datetime.timedelta) -> str:
    """The reason why a host needs a new certificate; empty if its current one is good."""
    try:
        found = certificates(host["certificate"])
    except ValueError:
        return "the file on the host is no certificate"
    if not found:
        return "it has none"
    current = found[0]
    left = current.not_valid_after_utc - now()
    if left < renew:
        return f"it ends in {max(left.days, 0)} days" if left > day(0) else "it has ended"
    if current.subject != subject_of(host):
        return f"its name is {current.subject.rfc4514_string()}"
    try:
        names = set(current.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        names = set()
    lacking = [name for name in host["names"] if general_name(name) not in names]
    if lacking:
        return f"it lacks the names {', '.join(lacking)}"
    if not authority.signed(current):
        return "another authority has signed it"
    return ""


def issue(host: dict[str, Any], authority: Authority, key: CertificateIssuerPrivateKeyTypes, validity: float) -> str:
    """Key and chain of a host in one text: a reader of the file never sees the key of one certificate and the chain of
    another.
    """
    own = ec.generate_private_key(ec.SECP256R1())
    begin = now()
    end = min(begin + day(validity), authority.certificate.not_valid_after_utc)
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    names = [general_name(name) for name in dict.fromkeys(host["names"])]
    signer = authority.certificate.public_key()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject_of(host))
        .issuer_name(authority.certificate.subject)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(begin - CLOCK_SKEW, authority.certificate.not_valid_before_utc))
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(is_authority=False), critical=True)
        .add_extension(usages, critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)  # type: ignore[arg-type]
        .sign(key, None if isinstance(key, (ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey)) else hashes.SHA256())
    )
    # Clients have the roots; the chain between root and host is sent with the certificate.
    between = [each for each in authority.chain if each.issuer != each.subject]
    return key_pem(own) + pem([certificate, *between])


def rotate(step: str, files: Directory, given: Given, asked: dict[str, Any]) -> None:
    """One step of an exchange of authorities. Each may be repeated, and normal runs may occur between them."""
    if step == "trust" and files.authority("previous") is not None:
        raise SystemExit(
            "the rotation before is not at its end (there is ca/previous.pem): "
            "run playbooks/rotate_certs.yml -e rotate_authority=true -e rotate_steps=withdraw"
        )
    if step == "trust" and files.authority("next") is None:
        current = files.authority("ca")
        if given and current is not None and given.chain[0] == current.certificate:
            raise SystemExit(
                f"tls_ca_certificate={given.certificate_file} is the authority in use: name the next one, or leave "
                "rotate_authority off to renew the certificates of hosts alone"
            )
        certificate, key = (pem(given.chain), "") if given else new_authority(asked)
        if key:
            files.write("next.key", key)
        files.write("next.pem", certificate)
        files.changed.append("the next authority")
    if step == "exchange" and files.read("next.pem"):
        # The certificate is written last: until it exists, the step is repeated from its beginning.
        files.write("previous.pem", files.read("ca.pem"))
        if files.read("next.key"):
            files.write("ca.key", files.read("next.key"))
        else:
            files.remove("ca.key")
        files.write("ca.pem", files.read("next.pem"))
        files.remove("next.pem")
        files.remove("next.key")
        files.changed.append("the authority")
    if step == "withdraw" and files.read("previous.pem"):
        files.remove("previous.pem")
        files.changed.append("the previous authority, which is trusted no longer")


def current_of(files: Directory, given: Given, asked: dict[str, Any]) -> Authority:
    found = files.authority("ca")
    if found is None:
        if given:
            files.write("ca.pem", pem(given.chain))
        else:
            certificate, key = new_authority(asked)
            files.write("ca.key", key)
            files.write("ca.pem", certificate)
        files.changed.append("the authority")
        found = files.authority("ca")
        assert found is not None
    elif given and given.chain[0] != found.certificate and not asked["step"] and files.authority("next") is None:
        raise SystemExit(
            f"tls_ca_certificate={given.certificate_file} is not the authority in use "
            f"({found.certificate.subject.rfc4514_string()}): hosts that trust only that one would refuse the others. "
            "Run playbooks/rotate_certs.yml -e rotate_authority=true"
        )
    return found


def key_of(files: Directory, authority: Authority, given: Given) -> CertificateIssuerPrivateKeyTypes:
    if given and given.chain[0] == authority.certificate:
        return given.key()
    text = files.read("ca.key")
    if not text:
        raise SystemExit("the key of the authority in use is not there: set tls_ca_certificate and tls_ca_key")
    return load_key(text, "ca/ca.key")


def probe_of(files: Directory, given: Given) -> str:
    """A certificate of the next authority, which is used to check whether a node already trusts that authority. It is
    valid for one day.
    """
    authority = files.authority("next")
    if authority is None:
        return ""
    is_given = given and given.chain[0] == authority.certificate
    key = given.key() if is_given else load_key(files.read("next.key"), "ca/next.key")
    return issue({"name": "rotation", "unit": NODE_UNIT, "names": ["localhost"]}, authority, key, 1)


def main() -> None:
    asked: dict[str, Any] = json.load(sys.stdin)
    if asked["step"] not in STEPS:
        raise SystemExit(f"tls_step={asked['step']}: allowed are trust, exchange, withdraw, or nothing")
    os.umask(0o077)
    files = Directory(Path(asked["directory"]), asked["check"])
    given = Given(asked["given"])
    authority = current_of(files, given, asked)
    rotate(asked["step"], files, given, asked)
    authority = files.authority("ca") or authority
    # A certificate is renewed if it has a problem; with `renew_all`, all are renewed.
    reasons = {
        host["name"]: "it is renewed" if asked["renew_all"] else why_new(host, authority, day(asked["renew_days"]))
        for host in asked["hosts"]
    }
    reasons = {name: why for name, why in reasons.items() if why}
    issued = {}
    if reasons:
        key = key_of(files, authority, given)
        by_name = {host["name"]: host for host in asked["hosts"]}
        issued = {name: issue(by_name[name], authority, key, asked["validity_days"]) for name in reasons}
    probe = probe_of(files, given) if asked["step"] == "trust" else ""
    trusted = [files.authority(name) for name in ("ca", "next", "previous")]
    print(
        json.dumps(
            {
                "authority": "".join(pem(each.chain) for each in trusted if each is not None),
                "issued": issued,
                "reasons": reasons,
                "probe": probe,
                "changed": files.changed,
            }
        )
    )


main()
