from broker_cy.storage.index_file import IndexFile

class OffsetIndex(IndexFile):
    def find_position(self, position: int, size: int) -> int: ...

class TimeIndex(IndexFile):
    @property
    def last(self) -> tuple[int, int]: ...
