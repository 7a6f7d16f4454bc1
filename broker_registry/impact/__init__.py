"""The impact of a new schema: it is tried on the records of its topic before it is registered.

topics.py         the topics of a subject, by the strategies of serializers                         pure
trial.py          the new schema on each record, and present readers on records of the new schema   pure
groups.py         the records that a group has ahead of it, and the schemas that it has read        pure
result.py         what was found
sample.py         the newest records of topics, and the positions of groups
segment_files.py  the newest records of topics from log directories of this machine
preview.py        all of it, with a client of the registry and a client of the cluster
shown.py          columns and lines for commands and consoles

The engine asks two questions. Do readers with the new schema take the records of the topic? A record counts as broken
if it can be read with its own schema and not with the new one. Do the present readers take records of the new schema?
Each record is rewritten with the new schema, and read with the schemas of the present readers.

Kafka does not tell which schema a client reads with. A group is known by its commits: the records before its committed
offset were read, and those behind it are still ahead. So the present readers are the newest version of the subject,
and for each partition the schema of the last record before the committed offset of a group: the newest one that its
clients are known to have handled. A client that was compiled with an older class reads with that class.
"""
