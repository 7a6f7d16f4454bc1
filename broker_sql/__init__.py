"""SQL on streams: the statements of ksqlDB, planned onto `broker_streams`.

    dialect      texts into statements and expressions (sqlglot's), and back
    statements   the forms of statements as data
    functions    scalar, aggregate and table functions
    expressions  the type of an expression, and a Python function that evaluates it
    formats      keys and values as bytes
    catalog      streams, tables and types that statements made
    analysis     a statement checked against the catalog
    planner      a checked statement as a topology of `broker_streams`
    server       the REST API, queries that run, views, the command topic
    client       of the server
    terminal     the editor
    types, errors  of columns, and of texts

Imports run one way, up from types and errors (import-linter).
"""
