"""A log manager over a temporary directory, with work done at once."""

from uuid import UUID

from broker_cy.storage.data_directory import open_directories
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_manager import LogManager, StorageSettings

CLUSTER_ID = "clusterclusterclustert"
TOPIC_ID = UUID(int=77)


class Manager(LogManager):
    """A LogManager whose jobs run inline; `crash` lets go of the directory as the end of the process does."""

    jobs: InlineJobs

    def crash(self) -> None:
        for directory in self.data_directories:
            directory.close()

    def stop(self) -> None:
        self.close(lambda topic, partition: self.logs[topic, partition].written_end_offset)


def open_manager(*paths, config=None, settings=None, now_ms=0, load=True) -> Manager:
    directories = open_directories([str(path) for path in paths], 1, lambda: CLUSTER_ID, lambda: UUID(int=5))
    manager = Manager(directories, settings or StorageSettings(), InlineJobs())
    if load:
        manager.load(lambda topic: config or LogConfig(), now_ms)
    return manager
