"""The user class of each entry of a scenario."""

from __future__ import annotations

from loadgen.scenario.model import Scenario, UserSpec
from loadgen.users.admin_churn import AdminChurn
from loadgen.users.base import LoadUser
from loadgen.users.connection_storm import ConnectionStorm
from loadgen.users.consumer import Consumer
from loadgen.users.copier import TransactionalCopier
from loadgen.users.group_member import GroupMember
from loadgen.users.probe import Probe
from loadgen.users.producer import Producer
from loadgen.users.share_consumer import ShareMember
from loadgen.users.slow_consumer import SlowConsumer

CLASSES: dict[str, type[LoadUser]] = {
    "producer": Producer,
    "hot-key": Producer,
    "consumer": Consumer,
    "group-member": GroupMember,
    "slow-consumer": SlowConsumer,
    "share-consumer": ShareMember,
    "transactional-copier": TransactionalCopier,
    "admin-churn": AdminChurn,
    "connection-storm": ConnectionStorm,
    "probe": Probe,
}


def class_of(spec: UserSpec) -> type[LoadUser]:
    """Return a locust user class for an entry, which locust spawns `spec.count` times over all workers."""
    body = {"spec": spec, "fixed_count": spec.count, "abstract": False, "__doc__": f"{spec.kind}: {spec.name}"}
    return type(spec.class_name, (CLASSES[spec.kind],), body)


def classes_of(scenario: Scenario) -> list[type[LoadUser]]:
    """Return the user classes of all entries."""
    return [class_of(spec) for spec in scenario.users]
