"""Measuring instruments: histograms, a process's resources and CPU profile, and the machine and revision measured."""
