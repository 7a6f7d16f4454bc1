"""Typed settings (Kafka's ConfigDef): types, defaults, checks, their tables, and config
providers. The settings of each program are its
own table, such as those of broker_cy.config.
"""
