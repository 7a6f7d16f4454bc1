"""Mirroring between clusters with MirrorMaker 2's own file, topics and records: the command `broker-mirror`.

config.py        mm2.properties: known settings, warnings and errors
settings.py      settings.tsv: names, Kafka's types, defaults and checks; the places of a name in the file
merged.py        the settings of a flow and its clients, as MirrorMaker 2 merges them     pure
flows.py         the flows of a file, and the flows that run in this process              pure
policy.py        names of remote topics, internal topics and cycles                       pure
filters.py       filters of topics, groups and settings of topics                         pure
transforms/      Kafka Connect's transforms of records                                    pure
formats/         the records of MirrorMaker 2's internal topics                           pure
pacing.py        which offset syncs are written                                           pure
cli.py           the command
service.py       the flows of one process, and their restarts
flow_run.py      one run of a flow: connections, share, copying and tasks
member.py        a process as a member of the group of a flow
lag.py           the lag of a flow, read from both clusters
listener.py      the pages /status, /metrics and /healthz
tasks/           topics, settings, ACLs, groups, checkpoints and heartbeats
sharing.py       how several processes divide the partitions of a flow                     pure
status.py        the state of the flows for people and metrics
proof/           the commands `verify` and `drill`
translation.py   offsets of the source as offsets of the target                           pure
"""
