"""Proof that both sides of a flow are equal, and the measured failover of a group.

ranges.py       the offsets of both sides that are compared, and counts and checksums by range    pure
pairing.py      records of both sides in their order, and the reasons of differences              pure
keys.py         the last record of each key, for compacted topics                                 pure
drilling.py     records that a group would read again or miss                                     pure
batches.py      batches of both clusters at a bounded rate
verify.py       `broker-mirror verify`
drill.py        `broker-mirror drill`
command.py      the two commands and their tables
"""
