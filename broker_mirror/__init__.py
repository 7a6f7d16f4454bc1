"""Mirroring between clusters with MirrorMaker 2's own file, topics and records: the command `broker-mirror`.

config.py        mm2.properties: known settings, warnings and errors
settings.py      settings.tsv: names, Kafka's types, defaults and checks; the places of a name in the file
merged.py        the settings of a flow and its clients, as MirrorMaker 2 merges them     pure
flows.py         the flows of a file, and the flows that run in this process              pure
policy.py        names of remote topics, internal topics and cycles                       pure
filters.py       filters of topics, groups and settings of topics                         pure
formats/         the records of MirrorMaker 2's internal topics                           pure
pacing.py        which offset syncs are written                                           pure
translation.py   offsets of the source as offsets of the target                           pure
"""
