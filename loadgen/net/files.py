"""The number of connections that a process may have: its limit of open files."""

from __future__ import annotations

import resource

# Open files of a process in addition to the connections of one kind of users: libraries, timers, pipes, other users.
OTHERS = 256


class FilesError(Exception):
    """The limit of open files is too low; the text says what to do."""


def allow_files(connections: int) -> None:
    """Raise the soft limit so that this many connections fit, if the hard limit allows. Raises FilesError."""
    wanted = connections + OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise FilesError(
            f"{connections} connections need {wanted} open files, and this process may have {hard}: raise its hard "
            "limit (ulimit -Hn), or spread the users over more workers"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
