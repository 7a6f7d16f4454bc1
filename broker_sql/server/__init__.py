"""The server of SQL: its REST API, the command topic, the queries that run, and views of tables."""
