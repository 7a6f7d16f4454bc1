"""Lineage of columns: the input columns that each output column of a topology comes from.

columns.py    the result: columns, how one uses another, as text and JSON. Any writer of plans can fill it
shapes.py     the columns that a value, and each of its fields, comes from
tracing.py    values that stand for shapes, and note their uses in a function
paths.py      a function on all of its paths
declared.py   lineage that the author of a function declares
of_plan.py    shapes along the nodes of a topology
of_steps.py   the shapes below each kind of step
"""
