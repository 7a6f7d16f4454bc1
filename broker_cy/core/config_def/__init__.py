"""Typed settings (Kafka's ConfigDef): types, defaults, checks, and their tables. The settings of each program are its
own table, such as those of broker_cy.config.
"""
