"""An administrator who moves replicas between the data directories of their brokers (AlterReplicaLogDirs), changes its
mind, and changes the throttle.
"""

from __future__ import annotations

from typing import Any, Final

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.clients.base import GONE, RETRIABLE, Client
from tests.sim.world.wire import Channel, Lost

BROKER_RESOURCE: Final = 4
SET: Final = 0
THROTTLE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
THROTTLES: Final = ("3000", "50000", "9223372036854775807")
REFUSED: Final = frozenset({ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR})


class Mover(Client):
    async def step(self) -> None:
        machine = self.draw.choice(list(self.world.machines.values()))
        try:
            if self.draw.chance(0.1):
                await self._throttle(machine.host)
            else:
                await self._move(machine.host, machine.data_paths)
            self.successes += 1
        except Lost:
            await self.back_off()

    async def _move(self, host: str, paths: list[str]) -> None:
        """Move some replicas to one directory. Those already in it stay, or give up to move away."""
        await self.look()
        chosen = self.draw.sample(self.spots, min(len(self.spots), self.draw.choice([1, 1, 2, 5])))
        Topic = m.AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
        Directory = m.AlterReplicaLogDirsRequest.AlterReplicaLogDir
        topics = [Topic(name=each.topic, partitions=[each.partition]) for each in chosen]
        directory = Directory(path=self.draw.choice(paths), topics=topics)
        answer: Any = await self._ask(host, m.AlterReplicaLogDirsRequest(dirs=[directory]), 2)
        for topic in answer.results:
            for each in topic.partitions:
                self._check("AlterReplicaLogDirs", each.error_code)

    async def _throttle(self, host: str) -> None:
        Resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource
        config = m.IncrementalAlterConfigsRequest.AlterableConfig(
            name=THROTTLE, config_operation=SET, value=self.draw.choice(THROTTLES)
        )
        node = str(self.world.machines[host].settings["node.id"])
        resource = Resource(resource_type=BROKER_RESOURCE, resource_name=node, configs=[config])
        answer: Any = await self._ask(host, m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        self._check("IncrementalAlterConfigs", answer.responses[0].error_code)

    async def _ask(self, host: str, request: Any, version: int) -> Any:
        """This broker itself. Raises Lost."""
        channel = Channel(self.world, self.name, host)
        try:
            await channel.open(1.0)
            return await channel.send(request, version)
        finally:
            channel.close()

    def _check(self, what: str, code: int) -> None:
        found = ErrorCode(code)
        assert found in RETRIABLE | GONE | REFUSED | {ErrorCode.NONE}, f"{self.name}: {what}: {found.name}"
