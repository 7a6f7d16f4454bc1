"""Who a client is and what it may do: state machines without sockets, files, clocks or random sources of their own."""
