"""The check that all internal stores and topics have names of the user (KIP-1111).

A generated name has the number of its call in it. Another call in front of it changes the name, and the application no
longer finds its state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from broker_streams.plan.topology import TopologyError
from broker_streams.settings import Scope, table

if TYPE_CHECKING:
    from broker_streams.dsl.topology import Topology

CONFIG: Final = "ensure.explicit.internal.resource.naming"
_GENERATED: Final = re.compile(r".*-[0-9]{10}(-store|-Buffer|-repartition)?")
# Users cannot name these stores in Kafka Streams either.
_UNNAMED: Final = "KTABLE-FK-JOIN-"


def check_names(topology: Topology, config: Mapping[str, Any]) -> None:
    """Raises TopologyError with all generated names, if `config` asks for the check. ValueError: it has no boolean."""
    given = config.get(CONFIG)
    if given is None or not table()[Scope.STREAMS, CONFIG].read(CONFIG, given):
        return
    plan = topology.plan
    stores = [each for each in plan.stores if _is_generated(each.name)]
    found = {
        "changelog topics": [f"{each.name}-changelog" for each in stores if each.logging],
        "state stores": [each.name for each in stores],
        "repartition topics": [each.name for each in plan.repartition_topics if _is_generated(each.name)],
    }
    missing = "; ".join(f"{kind} {', '.join(names)}" for kind, names in found.items() if names)
    if missing:
        raise TopologyError(f"{CONFIG} is true, and these have generated names: {missing}")


def _is_generated(name: str) -> bool:
    return _GENERATED.fullmatch(name) is not None and not name.startswith(_UNNAMED)
