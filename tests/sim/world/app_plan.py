"""The plans of worlds with an application of broker_streams, whose instances are processes of their own."""

from __future__ import annotations

from dataclasses import replace

from tests.sim.world.draws import Draws, Trace
from tests.sim.world.plan import (
    ADMIN,
    CLIENTS,
    CLUSTER,
    EVERYBODY,
    IN_CLUSTER,
    KILLS,
    LINKS,
    NODES,
    ONE_NODE,
    POWER,
    Fault,
    Plan,
    fault_of,
)

CLIENT_KINDS = ("plain", "plain", "txn", "txn")
AMOUNTS = (EVERYBODY, NODES, ONE_NODE, CLIENTS)
AMOUNTS_OF_PROCESSES = (EVERYBODY, ONE_NODE)
# The first one ends before the transaction that was open at its begin is aborted, the other one after it.
OUTAGES, OUTAGES_US = ("pause", "pause_in_commit", "cut", "cut_up", "cut_down"), (2_300_000, 3_500_000)
IN_COMMITS = ("kill_in_commit", "stop_in_commit", *2 * ("pause_in_commit",))
OF_INSTANCES = ("kill", "kill", "stop", *2 * ("pause",), *IN_COMMITS, "cut", *LINKS)
FAULTS_MAX, PROCESS_FAULTS_MAX = 5, 8
DURATION_US = 5_000_000, 9_000_000


def app_plan(seed: int) -> Plan:
    """A broker, or a cluster of three, and one to three instances of an application. As in other clusters, without
    syncs only one node loses its power, others have its records, and no process of a broker is killed.
    """
    draw = Draws(seed, "plan", Trace())
    hosts = draw.choice([("broker1",), ("broker1", "broker2", "broker3")])
    kinds = ["plain", "txn", *(draw.choice(CLIENT_KINDS) for _ in range(draw.randint(0, 1)))]
    clients = [
        (f"{ADMIN}app-{CLUSTER}", CLUSTER),
        *((f"{kind}{number}-{CLUSTER}", CLUSTER) for number, kind in enumerate(kinds)),
    ]
    instances = tuple(f"instance{number}" for number in range(1, 1 + draw.choice([1, 2, 2, 3])))
    is_synced, duration_us = draw.chance(0.4), draw.randint(*DURATION_US)
    loses_power = draw.chance(0.4) and (is_synced or len(hosts) > 1)
    of_brokers = IN_CLUSTER + (POWER if loses_power else ()) + (KILLS if is_synced or not loses_power else ())
    unlucky = draw.choice(hosts)
    faults: list[Fault] = []
    for _ in range(draw.randint(0, FAULTS_MAX)):
        fault = fault_of(draw, of_brokers, hosts, duration_us)
        if fault.kind in LINKS and fault.kind != "loss":
            fault = replace(fault, amount=draw.choice(AMOUNTS))
        if fault.kind in POWER and not is_synced:
            fault = replace(fault, host=unlucky)
        faults.append(fault)
    if is_synced and draw.chance(0.3):
        faults.append(fault_of(draw, ("break_disk",), hosts, duration_us))
    for _ in range(draw.randint(0, PROCESS_FAULTS_MAX)):
        fault = fault_of(draw, OF_INSTANCES, instances, duration_us)
        if fault.kind in OUTAGES and draw.chance(0.5):
            # Its session ends meanwhile, and others take its tasks.
            fault = replace(fault, us=draw.choice(OUTAGES_US))
        if fault.kind in LINKS and fault.kind != "loss":
            fault = replace(fault, amount=draw.choice(AMOUNTS_OF_PROCESSES))
        faults.append(fault)
    return Plan(
        seed,
        hosts,
        tuple(draw.randint(-300, 300) for _ in hosts),
        tuple(clients),
        tuple(sorted(faults, key=lambda each: each.at_us)),
        duration_us,
        is_synced,
        is_cluster=True,
        instances=instances,
    )
