"""Authentication and authorization: state machines and tables without sockets, files, clocks or random sources."""
