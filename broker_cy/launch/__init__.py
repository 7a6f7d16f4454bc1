"""Child processes, directories that are filled once per machine, jars of Maven Central and Java programs.

Used by the toolkit, the load generator, the analytics, the demo and the tests. Imports no other room of this project.
"""
