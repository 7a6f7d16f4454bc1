"""The coordinators of groups, transactions and share state as services of this broker: logs, timers, and requests to
other brokers.

The state machines, which do no I/O, are the package `coordinator`.
"""
