"""The tasks of a flow beside its records: topics, settings, ACLs, groups, checkpoints and heartbeats.

topics.py        remote topics to create and to grow, their settings, partitions to copy    pure
acls.py          ACLs of remote topics                                                      pure
groups.py        groups to translate, and the offsets to commit in the target               pure
checkpoints.py   checkpoints to write, and those that were written                          pure
host.py          carries the plans out with admin calls
"""
