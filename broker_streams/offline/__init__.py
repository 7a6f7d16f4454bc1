"""Whole applications over recorded records, in one process and without writing to the cluster.

runner     all tasks of a topology, in the order of the timestamps of records
history    records of archives, and of the topics behind them
segments   segment files of log directories as an archive
lake       Parquet files as an archive
inputs     recorded records as inputs of a runner, up to exact offsets
results    records of two sides in a file on disk, and their differences
certainty  which comparison of results is meaningful for a topology
"""
