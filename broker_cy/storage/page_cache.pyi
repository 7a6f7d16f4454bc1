def warm(fd: int, position: int, size: int) -> None:
    """Read a range of a file into the page cache. For worker threads. Raises OSError."""

def cached(fd: int, position: int, size: int) -> bool: ...
