"""Mirroring between clusters with MirrorMaker 2's own file, topics and records: the command `broker-mirror`.

config.py        mm2.properties: each setting by its place, and what MirrorMaker 2 merges for a flow
settings.tsv     the settings by name, with Kafka's types, defaults and checks
flows.py         the flows of a file, and the flows that run in this process              pure
policy.py        names of remote topics, internal topics and cycles                       pure
filters.py       filters of topics, groups and settings of topics                         pure
formats/         the records of MirrorMaker 2's internal topics                           pure
translation.py   offsets of the source as offsets of the target                           pure
"""
