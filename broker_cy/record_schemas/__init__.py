"""The check that records name schemas of the registry, for topics with confluent.key.schema.validation or
confluent.value.schema.validation. Brokers without such topics import nothing of it.

known.py      ids and GUIDs of each subject, as the topic of the registry says      entries.py    records of that topic
checks.py     the verdict about a batch                                             sources.py    reads of that topic
follower.py   keeps `known` up to date, and says whether it is                      service.py    the parts of a broker
"""
