"""The schemas of a registry in both consoles: what they show, and the acts on it.

tools.py     the registry of a cluster
session.py   the requests of a console to one registry, as feeds
views.py     subjects, versions and their differences, read with a client
columns.py   columns of tables
acts.py      forms and plans: register after a trial, delete
deleting.py  which versions a deletion takes, and the deletion
"""
