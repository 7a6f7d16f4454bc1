"""On a host whose broker runs: waits until the broker uses the current certificate files.

Reads {"ports", "node_ports", "directory", "probe", "seconds"} as JSON on the standard input. Each of `ports` must show
the certificate of node.pem. If `probe` is a key and a certificate, each of `node_ports` must accept it, which shows
that the node trusts its issuer.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import sys
import tempfile
import time
from typing import Any

PAUSE_S = 0.5
CONNECT_S = 5.0
# ApiVersions, version 0, of a client without a name: with TLS 1.3 a client learns only from the first answer whether
# its certificate is accepted.
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def shown(port: int, context: ssl.SSLContext) -> str:
    with socket.create_connection(("localhost", port), CONNECT_S) as plain, context.wrap_socket(plain) as secured:
        found = secured.getpeercert(binary_form=True)
        return ssl.DER_cert_to_PEM_cert(found or b"")


def accepted(port: int, context: ssl.SSLContext) -> bool:
    with socket.create_connection(("localhost", port), CONNECT_S) as plain, context.wrap_socket(plain) as secured:
        secured.sendall(API_VERSIONS)
        return len(secured.recv(4)) > 0


def context_of(identity: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The server at the host's own ports is verified by comparing its certificate.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if identity is not None:
        context.load_cert_chain(identity)
    return context


def wrong(asked: dict[str, Any], own: str, probe: str | None) -> str:
    """Return the first problem; empty if there is none."""
    node = os.path.join(asked["directory"], "node.pem")
    for port in asked["ports"]:
        try:
            found = shown(port, context_of(node))
        except OSError as error:
            return f"port {port}: {error}"
        if found.strip() != own.strip():
            return f"port {port} still shows the certificate before"
    for port in asked["node_ports"] if probe else []:
        try:
            if not accepted(port, context_of(probe)):
                return f"port {port} does not trust the next authority yet"
        except OSError as error:
            return f"port {port} does not trust the next authority yet ({error})"
    return ""


def main() -> None:
    asked = json.load(sys.stdin)
    with open(os.path.join(asked["directory"], "node.pem"), encoding="utf-8") as file:
        own = file.read().partition("-----BEGIN CERTIFICATE-----")[2].partition("-----END CERTIFICATE-----")[0]
    own = f"-----BEGIN CERTIFICATE-----{own}-----END CERTIFICATE-----"
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        probe = None
        if asked["probe"]:
            probe = os.path.join(directory, "probe.pem")
            with open(probe, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(asked["probe"])
        while True:
            problem = wrong(asked, own, probe)
            waited = time.monotonic() - begin
            if not problem:
                print(f"in use after {waited:.1f} s")
                return
            if waited > asked["seconds"]:
                raise SystemExit(f"{problem}, after {waited:.0f} s; the log of the broker says why")
            time.sleep(PAUSE_S)


main()
