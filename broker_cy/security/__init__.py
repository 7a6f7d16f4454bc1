"""Who a client is and what it may do: state machines and tables without sockets, files, clocks or random sources."""
