"""Files that readers never see half written."""

import os
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Write a text file; a reader finds the old file or the complete new one. Creates its directory. Raises OSError.

    A link is kept. A path that is not a regular file, such as /dev/stdout or a named pipe, is written to and not
    replaced.
    """
    path = path.resolve() if path.is_symlink() and path.is_file() else path
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    making = path.with_name(f".{path.name}.{os.getpid()}.making")
    try:
        making.write_text(text, encoding="utf-8")
        making.replace(path)
    finally:
        making.unlink(missing_ok=True)
