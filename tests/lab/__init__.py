"""Faults of hosts and networks under a cluster at work, judged by the history checker: `python -m tests.lab --help`.

Each host is a network namespace with its own address, cabled to a switch (a bridge in another namespace), and a mount
namespace with a disk of limited size. Containers with an init system would add nothing that these faults need, and
start in minutes instead of a second. Processes hold all namespaces, so nothing is left when the run ends, however it
ends. The clock of the machine is never changed: a broker's wall clock is shifted by a library that is loaded before its
C library (tests/lab/clock.py).
"""
