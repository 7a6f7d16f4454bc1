"""Key stores and trust stores: each form that Kafka reads gives the same key and certificates, and each misfit is
named.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker_cy.client.tls import context_of
from broker_cy.security.tls.jks import JksError, read_jks
from broker_cy.security.tls.stores import (
    ClientSettings,
    Identity,
    StoreError,
    StoreSettings,
    check_settings,
    load_identity,
    load_trusted,
)
from tests.support import needs
from tests.support.certificates import PASSWORD, Authority, Holder

needs.require(needs.tls)


def read(location: str) -> bytes:
    return Path(location).read_bytes()


@dataclass
class Files:
    directory: Path
    authority: Authority
    holder: Holder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    authority = Authority()
    return Files(tmp_path_factory.mktemp("stores"), authority, authority.issue("broker"))


def identity(**settings: Any) -> Identity | None:
    found = StoreSettings(**settings)
    check_settings(found)
    return load_identity(found, read)


def test_every_form_gives_the_same(files: Files) -> None:
    """If this fails, a key store of an existing Kafka cannot be used."""
    directory, holder = files.directory, files.holder
    forms = [
        {"keystore_type": "PEM", "keystore_location": str(holder.write_pem(directory / "own.pem"))},
        {
            "keystore_type": "PEM",
            "keystore_location": str(holder.write_pem(directory / "encrypted.pem", "key-secret")),
            "key_password": "key-secret",
        },
        # On one line, as a file of properties may have it.
        {
            "keystore_type": "PEM",
            "keystore_key": holder.key_pem("key-secret").replace("\n", " "),
            "certificate_chain": holder.certificate_pem,
            "key_password": "key-secret",
        },
        {
            "keystore_type": "PKCS12",
            "keystore_location": str(holder.write_pkcs12(directory / "own.p12")),
            "keystore_password": PASSWORD,
        },
        {"keystore_location": str(holder.write_jks(directory / "own.jks")), "keystore_password": PASSWORD},
        # Java reads PKCS12 where JKS is configured.
        {"keystore_location": str(directory / "own.p12"), "keystore_password": PASSWORD},
    ]
    found = [identity(**form) for form in forms]
    assert all(each is not None and each.chain[0] == holder.der for each in found)
    assert len({each.key for each in found if each is not None}) == 1
    for each in found:
        assert each is not None
        assert each.certificate.subject == "CN=broker,OU=Tests,O=Broker"
        assert "key" not in repr(each)


def test_a_key_of_another_certificate(files: Files) -> None:
    """If this fails, a node that cannot connect to others does not say that its key and its certificate differ."""
    chain = files.authority.issue("other").certificate_pem
    stores = StoreSettings(keystore_type="PEM", keystore_key=files.holder.key_pem(), certificate_chain=chain)
    with pytest.raises(StoreError, match="key store cannot be used: the private key does not fit the certificate"):
        context_of(ClientSettings(stores), read)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_trust_stores_of_keytool(files: Files, kind: str) -> None:
    """If this fails, clients with good certificates are refused."""
    path = files.authority.write_truststore(files.directory / f"trust.{kind}", kind)
    settings = StoreSettings(truststore_type=kind, truststore_location=str(path), truststore_password=PASSWORD)
    assert load_trusted(settings, read) == [files.authority.der]
    if kind == "JKS":
        assert load_trusted(settings._replace(truststore_password=None), read) is not None
    with pytest.raises(StoreError, match="password is wrong"):
        load_trusted(settings._replace(truststore_password="wrong"), read)


def test_a_trust_store_in_pem(files: Files) -> None:
    """If this fails, only one of several authorities is trusted."""
    second = Authority("Second")
    settings = StoreSettings(truststore_type="PEM", truststore_certificates=files.authority.pem + second.pem)
    assert load_trusted(settings, read) == [files.authority.der, second.der]


def test_misfits_are_named(files: Files) -> None:
    """If this fails, a broker starts without the protection that is configured, or does not say why not."""
    directory, holder = files.directory, files.holder
    pem = str(holder.write_pem(directory / "misfit.pem", "key-secret"))
    store = str(holder.write_pkcs12(directory / "misfit.p12"))
    jks = holder.write_jks(directory / "misfit.jks")
    (directory / "empty.pem").write_text("nothing")
    cases: list[tuple[dict[str, str], str]] = [
        ({"keystore_type": "BKS"}, "not supported"),
        ({"keystore_location": store}, "key store password is not specified"),
        ({"keystore_password": "x"}, "key store is not specified"),
        ({"keystore_key": "x", "certificate_chain": "y"}, "only for PEM"),
        ({"keystore_type": "PEM", "keystore_key": "x"}, "certificate chain is not specified"),
        ({"keystore_type": "PEM", "certificate_chain": "x"}, "private key is not specified"),
        ({"keystore_type": "PEM", "keystore_location": pem, "keystore_password": "x"}, "only key password"),
        ({"keystore_type": "PEM", "keystore_location": pem}, "ssl.key.password is not set"),
        ({"keystore_type": "PEM", "keystore_location": pem, "key_password": "no"}, "ssl.key.password is wrong"),
        ({"keystore_type": "PEM", "keystore_location": str(directory / "absent")}, "No such file"),
        ({"keystore_type": "PEM", "keystore_location": str(directory / "empty.pem")}, "No private key found"),
        ({"keystore_location": store, "keystore_password": "wrong"}, "password is wrong"),
        ({"keystore_location": str(jks), "keystore_password": "wrong"}, "password is wrong"),
        ({"keystore_location": str(jks), "keystore_password": PASSWORD, "key_password": "no"}, "private key is wrong"),
        ({"keystore_location": pem, "keystore_password": "x"}, "no key store of the type PKCS12"),
    ]
    for settings, message in cases:
        with pytest.raises(StoreError, match=message):
            identity(**settings)
    for settings, message in [
        ({"truststore_certificates": "x"}, "only for PEM"),
        ({"truststore_password": "x"}, "trust store is not specified"),
        ({"truststore_type": "PEM", "truststore_certificates": "x", "truststore_location": "y"}, "Both SSL trust"),
        ({"truststore_type": "PEM", "truststore_certificates": "x", "truststore_password": "y"}, "cannot be specified"),
    ]:
        with pytest.raises(StoreError, match=message):
            check_settings(StoreSettings(**settings))
    with pytest.raises(StoreError, match="No certificate found"):
        load_trusted(StoreSettings(truststore_type="PEM", truststore_certificates="x"), read)


def test_a_damaged_jks_is_refused(files: Files) -> None:
    """If this fails, a store that was cut off or changed is used."""
    data = files.holder.write_jks(files.directory / "damaged.jks").read_bytes()
    for size in range(0, len(data), 37):
        with pytest.raises(JksError):
            read_jks(data[:size], PASSWORD)
    for at in range(0, len(data), 41):
        with pytest.raises(JksError):
            read_jks(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], PASSWORD)
