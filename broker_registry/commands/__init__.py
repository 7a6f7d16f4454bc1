"""`broker-cy schemas`: the commands of a registry's users. broker-cy imports them by name when they are used.

schemas.py   list, show, versions      comparing.py   diff, check
changing.py  register, delete          copying.py     copy
impact.py    impact
"""
