"""The registry of a cluster: which one it is, and the decoder that tools get for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.client.clusters import ClusterEntry, Wanted, find_cluster, load_clusters
from broker_cy.client.errors import ClientError
from broker_registry.serdes.tools import LIBRARIES, client_of, console_decoder_of, decoder_of

CLUSTERS = """
[clusters.a]
bootstrap = "127.0.0.1:9092"
registry = "http://file:1"
registry_config = "registry.properties"

[clusters.b]
bootstrap = "127.0.0.1:9092"
"""


@pytest.mark.parametrize(
    ("option", "name", "variable", "registry"),
    [
        ("http://option:1", "a", "http://variable:1", "http://option:1"),
        (None, "a", "http://variable:1", "http://file:1"),
        (None, "b", "http://variable:1", "http://variable:1"),
        (None, None, "http://variable:1", "http://variable:1"),
        (None, "b", "", None),
    ],
)
def test_the_registry_of_a_cluster(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str | None,
    name: str | None,
    variable: str,
    registry: str | None,
) -> None:
    """If this fails, a tool asks the registry of another cluster, or sends it the login of this one."""
    monkeypatch.setenv("BROKER_CY_REGISTRY", variable)
    path = tmp_path / "clusters.toml"
    path.write_text(CLUSTERS)
    entry = find_cluster(load_clusters(path) if name else None, None, name)
    found = Wanted(registry=option).changed(entry)
    assert found.registry == registry
    has_login = registry == "http://file:1"
    assert found.registry_config == (tmp_path / "registry.properties" if has_login else None)
    assert found.has_registry is (registry is not None)


def test_tools_have_a_decoder_if_the_cluster_has_a_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, tools ask a registry that no option names, or say nothing about libraries that are missing."""
    none = ClusterEntry("a", ())
    assert (client_of(none), decoder_of(none), console_decoder_of(none)) == (None, None, None)
    entry = ClusterEntry("a", (), registry="http://a:1,http://b:2")
    found = client_of(entry)
    assert found is not None
    assert found.name == "http://a:1,http://b:2"
    assert decoder_of(entry) is not None
    assert console_decoder_of(entry) is not None
    with pytest.raises(ClientError, match="'nowhere' is no URL of a registry"):
        decoder_of(ClusterEntry("a", (), registry="nowhere"))
    monkeypatch.setattr("broker_registry.serdes.tools.LIBRARIES", (*LIBRARIES, "absent.library"))
    with pytest.raises(ClientError, match=r"'broker-cy.registry.' .missing: absent.library."):
        decoder_of(entry)
