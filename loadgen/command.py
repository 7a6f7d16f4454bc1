"""Shared parts of `broker-load` and plain locust as commands: the default cluster, and exit codes for runs that could
not be performed. Exit codes of runs are in `loadgen.report.result`.
"""

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
WRONG_USE = 64  # EX_USAGE of sysexits.h; click's own 2 would say that the generator was the limit
UNAVAILABLE = 69  # EX_UNAVAILABLE
