"""The columns of lists, once for the commands, the terminal console and the dashboard.

Titles are Kafka's terms. A program chooses the columns, their order and their width.
"""
