"""Columns of brokers. The shards of a host may be one row (console/hosts.py)."""

from __future__ import annotations

from typing import Any, Final

from broker_cy.console.hosts import address_text, id_text
from broker_cy.console.process_figures import connections_of, cpu_of, memory_of, uptime_of
from broker_cy.console.rows import BrokerRow
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import UNKNOWN, percent
from broker_cy.reporting.tone import Tone


def _address(row: BrokerRow) -> str:
    return address_text([each.info for each in row.parts])


def _ids(row: BrokerRow) -> str:
    return id_text([each.info.broker_id for each in row.parts])


def _cpu(row: BrokerRow) -> str:
    share = cpu_of(row)
    return UNKNOWN if share is None else percent(share, 1)


BROKER: Final = Column[BrokerRow]("id", "Broker", lambda row: row.info.broker_id, Kind.NUMBER, text=_ids, width=6)
ADDRESS: Final = Column[BrokerRow]("address", "Address", _address, sorts=False, width=21)
RACK: Final = Column[BrokerRow]("rack", "Rack", lambda row: row.info.rack or None, width=8)
# Its rows are a state and the tone of it: a state depends on events and on the caller (console/broker_state.py).
STATE: Final = Column[tuple[str, Tone]](
    "state", "State", lambda state: state[0], tone=lambda state: state[1], sorts=False, width=27
)
CONTROLLER: Final = Column[BrokerRow](
    "controller", "Controller", lambda row: "yes" if row.is_controller else "", sorts=False
)
LEADERS: Final = Column[BrokerRow](
    "leads", "Leaders", lambda row: row.leads, Kind.COUNT, hint="Partitions that the broker leads", width=7
)
REPLICAS: Final = Column[Any]("replicas", "Replicas", lambda row: row.replicas, Kind.COUNT, width=8)
IN_SYNC: Final = Column[Any]("in-sync", "In sync", lambda row: row.in_sync, Kind.COUNT, width=8)
OUT_OF_SYNC: Final = Column[Any]("behind", "Out of sync", lambda row: row.out_of_sync, Kind.COUNT, width=11)
PREFERRED: Final = Column[Any](
    "preferred", "Preferred", lambda row: row.preferred, Kind.COUNT, hint="Partitions that should be led here", width=9
)
SIZE: Final = Column[BrokerRow](
    "logs", "Size", lambda row: row.size_bytes, Kind.BYTES, hint="Bytes of the logs on disk", width=9
)
UPTIME: Final = Column[BrokerRow]("up", "Uptime", uptime_of, Kind.DURATION, width=10)
CPU: Final = Column[BrokerRow]("cpu", "CPU", cpu_of, Kind.RATE, text=_cpu, hint="Share of one core", width=5)
MEMORY: Final = Column[BrokerRow]("memory", "Memory", memory_of, Kind.BYTES, hint="Resident memory", width=9)
CONNECTIONS: Final = Column[BrokerRow]("connections", "Connections", connections_of, Kind.COUNT, width=11)
