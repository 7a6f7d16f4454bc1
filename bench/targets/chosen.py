"""The targets that the options of the command line select: `-t`, and the cluster of `--bootstrap` or `--cluster`."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.spec import target as targets
from bench.spec.target import TargetSpec
from bench.wire.endpoint import write_config
from broker_cy.client.address import Address
from broker_cy.client.clusters import ClusterEntry, Wanted, select
from broker_cy.client.security import java_settings, security_of
from broker_cy.client.toml_file import SpecError

# The time that an address of several has to accept a connection.
CONNECT_S = 2.0
NEEDED = "name a target with -t, --bootstrap or --cluster"


def chosen(
    names: Sequence[str], wanted: Wanted, find: Callable[[str], TargetSpec], directory: Path
) -> list[TargetSpec]:
    """Return the targets of `names`, and that of the options and the environment. Files with secrets are written to
    `directory`. Raises SpecError and ClientError.
    """
    has_login = wanted.command_config is not None or bool(wanted.settings)
    is_cluster = wanted.bootstrap is not None or wanted.name is not None
    # The variables of the environment are for a command without a target.
    selected = wanted if is_cluster or names else wanted.or_environment()
    cluster = None
    if selected.bootstrap is not None or selected.name is not None:
        cluster = select(selected)
    elif not names:
        raise SpecError(NEEDED)
    specs: list[TargetSpec] = []
    login: Path | None = None
    for name in names:
        if not _is_address(name):
            specs.append(find(name))
            continue
        if has_login and login is None:
            login = client_config(wanted.changed(ClusterEntry(name, ())), directory)
        try:
            specs.append(targets.from_address(name, login))
        except ValueError as error:
            raise SpecError(str(error), what="--target") from None
    if cluster is not None:
        made = targets.from_address(str(_listening(cluster.bootstrap)), client_config(cluster, directory))
        specs.append(replace(made, name=cluster.name) if cluster.is_named else made)
    if has_login and all(spec.kind != "address" for spec in specs):
        option = "-X" if wanted.command_config is None else f"--command-config {wanted.command_config}"
        raise SpecError(f"only for HOST:PORT and clusters, not for {', '.join(names)}", what=option)
    return specs


def _listening(addresses: Sequence[Address]) -> Address:
    """Return the first address that accepts a connection; the first if none does: attaching to it reports why."""
    for address in addresses if len(addresses) > 1 else ():
        try:
            socket.create_connection(address, CONNECT_S).close()
        except OSError:
            continue
        return address
    return addresses[0]


def _is_address(name: str) -> bool:
    return ":" in name and not name.endswith(".toml")


def client_config(cluster: ClusterEntry, directory: Path) -> Path | None:
    """Return the file with the settings of the cluster's clients, which generators in other programs read; None without
    any. Raises ClientError.
    """
    settings, where = cluster.client_settings()
    security_of(settings, where)
    if cluster.command_config is not None and not cluster.overrides:
        return cluster.command_config
    if not settings:
        return None
    return write_config(
        java_settings(settings, where), directory / f"client-{len(list(directory.iterdir()))}.properties"
    )
