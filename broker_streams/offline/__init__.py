"""Whole applications over recorded records, in one process and without writing to the cluster.

runner     all tasks of a topology, in the order of the timestamps of records
inputs     recorded records of the cluster, up to exact offsets
results    records of two sides in a file on disk, and their differences
certainty  which comparison of results is meaningful for a topology
"""
