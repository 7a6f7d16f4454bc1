from broker_cy.config import BrokerConfig
from broker_cy.replica.mirror import Mirror
from broker_cy.replica.partition import Partition
from broker_cy.replica.throttle import ReplicaThrottle
from broker_cy.replication.fetch_session_handler import FetchSessionHandler

class MirrorFetchSession(FetchSessionHandler):
    version: int

    def __init__(self, config: BrokerConfig, throttle: ReplicaThrottle, mirrors: dict[Partition, Mirror]) -> None: ...
