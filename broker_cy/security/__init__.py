"""Who a client is and what it may do: pure state machines and tables, without sockets, files, clocks or randomness."""
