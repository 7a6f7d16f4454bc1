"""Runs with the Python of tools/sslyze.sh, which has sslyze: `sslyze_scan.py PORT [CERTIFICATE KEY]`.

Scans the TLS listener at 127.0.0.1:PORT with all of sslyze's plugins, and prints their results as JSON: `refused` are
plugins that did not complete, `accepted` the suites by protocol, `findings` the results that an auditor would report.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from sslyze import (
    ClientAuthenticationCredentials,
    ScanCommand,
    ScanCommandAttemptStatusEnum,
    Scanner,
    ServerNetworkConfiguration,
    ServerNetworkLocation,
    ServerScanRequest,
    ServerScanStatusEnum,
)

# These request a web page, check the certificate (the test's own), and need a session ticket (none exists).
COMMANDS = set(ScanCommand) - {
    ScanCommand.HTTP_HEADERS,
    ScanCommand.CERTIFICATE_INFO,
    ScanCommand.TLS_1_3_EARLY_DATA,
}
PLUGINS = sorted(each.value for each in COMMANDS)
PROTOCOLS = ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1", "tls_1_2", "tls_1_3")
GOOD_SUITES = {
    "tls_1_2": "TLS_(ECDHE|DHE)_(ECDSA|RSA)_WITH_.*(GCM|CHACHA20|CCM)",
    "tls_1_3": "TLS_(AES|CHACHA20)_",
}
WEAK_CURVES = ("sect", "secp1", "prime192")


def findings(result: Any) -> list[str]:
    """Return the findings that are worse than a remark."""
    of = {name: getattr(result, name).result for name in PLUGINS}
    found = []
    for name in PROTOCOLS[:4]:
        if of[f"{name}_cipher_suites"].accepted_cipher_suites:
            found.append(f"{name} is served")
    for name in PROTOCOLS[4:]:
        for each in of[f"{name}_cipher_suites"].accepted_cipher_suites:
            suite = each.cipher_suite
            # The remaining suites have forward secrecy and authenticated encryption.
            if suite.is_anonymous or suite.key_size < 128 or not re.match(GOOD_SUITES[name], suite.name):
                found.append(f"{name} with {suite.name}")
    found += [
        f"{name} {value}"
        for name, value in (
            ("compression", of["tls_compression"].supports_compression),
            ("heartbleed", of["heartbleed"].is_vulnerable_to_heartbleed),
            ("CCS injection", of["openssl_ccs_injection"].is_vulnerable_to_ccs_injection),
            ("renegotiation by clients", of["session_renegotiation"].is_vulnerable_to_client_renegotiation_dos),
            ("no secure renegotiation", not of["session_renegotiation"].supports_secure_renegotiation),
            ("ROBOT", of["robot"].robot_result.name.startswith("VULNERABLE")),
            ("tickets", not of["session_resumption"].tls_ticket_resumption_result.name.startswith("NOT")),
            ("sessions", not of["session_resumption"].session_id_resumption_result.name.startswith("NOT")),
            ("no extended master secret", not of["tls_extended_master_secret"].supports_ems_extension),
        )
        if value
    ]
    curves = [each.name for each in of["elliptic_curves"].supported_curves or []]
    found += [f"curve {name}" for name in curves if name.startswith(WEAK_CURVES)]
    return found


def main() -> None:
    port, *own = sys.argv[1:]
    location = ServerNetworkLocation(hostname="localhost", ip_address="127.0.0.1", port=int(port))
    credentials = ClientAuthenticationCredentials(Path(own[0]), Path(own[1])) if own else None
    request = ServerScanRequest(
        server_location=location,
        network_configuration=ServerNetworkConfiguration("localhost", tls_client_auth_credentials=credentials),
        scan_commands=COMMANDS,
    )
    scanner = Scanner()
    scanner.queue_scans([request])
    (found,) = scanner.get_results()
    if found.scan_status is not ServerScanStatusEnum.COMPLETED:
        sys.exit(f"no scan: {found.connectivity_error_trace}")
    result = found.scan_result
    refused = {
        name: str(getattr(result, name).error_trace)
        for name in PLUGINS
        if getattr(result, name).status is not ScanCommandAttemptStatusEnum.COMPLETED
    }
    accepted = {
        name: [
            each.cipher_suite.name for each in getattr(result, f"{name}_cipher_suites").result.accepted_cipher_suites
        ]
        for name in PROTOCOLS
        if f"{name}_cipher_suites" not in refused
    }
    print(json.dumps({"refused": refused, "accepted": accepted, "findings": [] if refused else findings(result)}))


main()
