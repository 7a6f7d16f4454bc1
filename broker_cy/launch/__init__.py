"""Child processes, signals that end a program, directories that are filled once per machine, jars and Java programs.

Used by the toolkit, the load generator, the analytics, the demo and the tests. Imports no other room of this project.
"""
