"""Certificates of a cluster while clients work: renewal, another authority, the operator's authority; and changed
settings. No application may get an error, and certificates need no restart.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.deploy.deployed import Deployed
from tests.deploy.lab import Lab
from tests.deploy.load import under_load
from tests.deploy.test_authority import NODE, Control, authority_files, host
from tests.deploy.wheels import wheelhouse

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
NAMES = ("n1", "n2", "n3")
# CLIENT, CONTROLLER, INTERNAL and the metrics.
PORTS = (9092, 9093, 9094, 9404)
ASK_S = 60.0
# Prints the certificate at an address. The control node has Python as a client.
ASK = "import ssl, sys; print(ssl.get_server_certificate((sys.argv[1], int(sys.argv[2])), timeout=20))"


@pytest.fixture(scope="module")
def cluster(make_lab: Callable[..., Lab]) -> Deployed:
    """Three running hosts with their own authority."""
    lab = make_lab("tls", len(NAMES))
    wheelhouse(lab)
    deployed = Deployed(lab)
    deployed.set_up(NAMES)
    return deployed


def trusting(cluster: Deployed, directory: Path) -> Path:
    """Client settings with the authorities that the hosts trust now, as an operator distributes them."""
    authority = directory / "authority.pem"
    authority.write_text(cluster.lab.ssh("n1", "sudo cat /etc/broker-cy/tls/authority.pem").stdout)
    return cluster.write_client_settings(directory / "client.properties", authority)


def certificates(cluster: Deployed) -> dict[tuple[str, int], x509.Certificate]:
    """The certificate at each port of each host."""
    found = {}
    for name in NAMES:
        address = cluster.lab.host(name).address
        for port in PORTS:
            asked = [sys.executable, "-c", ASK, address, str(port)]
            done = subprocess.run(cluster.lab.ctl(*asked), capture_output=True, text=True, timeout=ASK_S, check=False)
            assert done.returncode == 0, (name, port, done.stderr)
            found[name, port] = x509.load_pem_x509_certificate(done.stdout.encode())
    return found


def serials(cluster: Deployed) -> set[int]:
    return {each.serial_number for each in certificates(cluster).values()}


def issuers(cluster: Deployed) -> set[str]:
    return {each.issuer.rfc4514_string() for each in certificates(cluster).values()}


def starts(cluster: Deployed) -> dict[str, str]:
    return {name: cluster.started(name) for name in NAMES}


def is_well(cluster: Deployed) -> None:
    assert "cluster: well" in cluster.play("health").output


def test_ports_show_certificates_with_the_names_of_their_host(cluster: Deployed) -> None:
    """Each host has one certificate at all ports, with its name and its address."""
    for (name, port), certificate in certificates(cluster).items():
        (common,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert common.value == name, port
        assert name in names.get_values_for_type(x509.DNSName)
        assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == [cluster.lab.host(name).address]
    assert len(serials(cluster)) == len(NAMES)


def test_certificates_are_renewed_without_a_restart(cluster: Deployed, tmp_path: Path) -> None:
    """All hosts get another certificate while clients work, at all ports; no broker is restarted."""
    before, started = serials(cluster), starts(cluster)
    with under_load(cluster.lab, trusting(cluster, tmp_path), cluster.bootstrap, tmp_path) as verdict:
        cluster.play("rotate_certs")
    print(verdict)
    verdict.check()
    after = serials(cluster)
    assert len(after) == len(NAMES)
    assert not after & before
    assert starts(cluster) == started
    assert cluster.play("site").changed == 0
    is_well(cluster)


def test_certificates_that_end_soon_are_renewed_by_a_usual_run(cluster: Deployed) -> None:
    """site.yml replaces certificates that expire within tls_renew_days, and restarts nothing."""
    before, started = serials(cluster), starts(cluster)
    cluster.play("site", tls_renew_days=366, tls_validity_days=400)
    found = {path: cluster.lab.ssh(path, "sudo cat /etc/broker-cy/tls/node.pem").stdout for path in NAMES}
    chains = {text[text.index("-----BEGIN CERTIFICATE") :] for text in found.values()}
    assert not {x509.load_pem_x509_certificate(each.encode()).serial_number for each in chains} & before
    assert starts(cluster) == started
    assert cluster.play("site", tls_renew_days=366, tls_validity_days=400).changed == 0


def test_authority_is_exchanged_without_a_restart(cluster: Deployed, tmp_path: Path) -> None:
    """In two runs, between which clients get the next authority; an ordinary run in between changes nothing."""
    before, started = issuers(cluster), starts(cluster)
    assert len(before) == 1
    with under_load(cluster.lab, trusting(cluster, tmp_path), cluster.bootstrap, tmp_path) as verdict:
        cluster.play("rotate_certs", rotate_authority=True, rotate_steps="trust")
        assert cluster.play("site").changed == 0
    verdict.check()
    assert issuers(cluster) == before
    with under_load(cluster.lab, trusting(cluster, tmp_path), cluster.bootstrap, tmp_path) as verdict:
        cluster.play("rotate_certs", rotate_authority=True, rotate_steps="exchange,withdraw")
    print(verdict)
    verdict.check()
    after = issuers(cluster)
    assert len(after) == 1
    assert after != before
    assert starts(cluster) == started
    authority = cluster.lab.ssh("n2", "sudo cat /etc/broker-cy/tls/authority.pem").stdout
    assert authority.count("BEGIN CERTIFICATE") == 1
    assert cluster.play("site").changed == 0
    is_well(cluster)


def test_authority_of_the_operator_takes_over(cluster: Deployed, tmp_path: Path) -> None:
    """An ordinary run refuses another authority with the remedy; the rotation accepts it, without its key."""
    given = authority_files(tmp_path / "of the operator", days=3000)
    variables: dict[str, Any] = {"tls_ca_certificate": given["certificate"], "tls_ca_key": given["key"]}
    before, started = serials(cluster), starts(cluster)
    refused = cluster.play("site", check=False, **variables)
    assert refused.code == 2
    assert "rotate_authority=true" in refused.output
    assert serials(cluster) == before
    cluster.play("rotate_certs", rotate_authority=True, **variables)
    assert issuers(cluster) == {"CN=of the operator"}
    assert starts(cluster) == started
    kept = cluster.lab.inventory.parent / "secrets" / "ca"
    assert [path.name for path in kept.iterdir()] == ["ca.pem"]
    assert cluster.play("site", **variables).changed == 0
    # Back to the cluster's own authority, for the tests after this one.
    cluster.play("rotate_certs", rotate_authority=True)
    is_well(cluster)


def test_certificate_of_another_service_gives_no_rights(cluster: Deployed, tmp_path: Path) -> None:
    """At the internal port, only certificates with the organizational unit of nodes identify nodes."""
    control = Control(cluster.lab.inventory.parent / "secrets")
    for unit, is_node in (("broker-cy-service", False), (NODE, True)):
        issued = control.must({**host(unit), "unit": unit})
        (tmp_path / f"{unit}.pem").write_text(issued["issued"][unit])
        (tmp_path / "authority.pem").write_text(issued["authority"])
        config = tmp_path / f"{unit}.properties"
        stores = {"keystore": f"{unit}.pem", "truststore": "authority.pem"}
        lines = ["security.protocol=SSL", *(f"ssl.{store}.type=PEM" for store in stores)]
        lines += [f"ssl.{store}.location={tmp_path / file}" for store, file in stores.items()]
        config.write_text("\n".join([*lines, ""]))
        words = ["brokers", "list", "--bootstrap", f"{cluster.lab.host('n1').address}:9094", "--timeout", "20"]
        argv = cluster.lab.ctl(Path(sys.executable).parent / "broker-cy", *words, "--command-config", config)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=ASK_S, check=False)
        assert (done.returncode == 0) is is_node, (unit, done.stdout, done.stderr)


def test_changed_setting_restarts_each_host_once(cluster: Deployed, tmp_path: Path) -> None:
    """One setting leads to one rolling restart that clients do not see; the same run again restarts nothing."""
    before = starts(cluster)
    settings: dict[str, Any] = {"broker_settings": {"log.retention.hours": 100}}
    with under_load(cluster.lab, trusting(cluster, tmp_path), cluster.bootstrap, tmp_path) as verdict:
        cluster.play("site", **settings)
    print(verdict)
    verdict.check()
    after = starts(cluster)
    assert all(after[name] != before[name] for name in NAMES)
    for name in NAMES:
        counted = cluster.lab.ssh(name, "sudo journalctl -u broker-cy -o cat | grep -c '^Started broker-cy'").stdout
        assert int(counted) == 2, name
    assert cluster.play("site", **settings).changed == 0
    assert starts(cluster) == after


def test_wrong_setting_is_refused_before_anything_stops(cluster: Deployed) -> None:
    """The new release checks the settings before the running broker is stopped."""
    before = starts(cluster)
    refused = cluster.play("site", check=False, broker_settings={"log.retention.hours": "many"})
    assert refused.code == 2
    assert "log.retention.hours" in refused.output
    assert starts(cluster) == before
    is_well(cluster)
