"""Load generators on locust: users that behave like the clients of a real cluster, and check the records that they
wrote.
"""
