"""State stores: typed > caching > change logging > bytes. All of them hold bytes in Kafka's formats.

Each module says which formats and orders it has; factory.py opens the stores of a task.

    ordered          keys in the order of their bytes, and a map of them: the memory below stores
    maps             the interface of maps, which hosts implement on disk
    keys             layouts of keys
    bound            serdes of a store
    cache, merge     rows that wait for a commit, and iterations over them and the store below
    key_value        key-value stores, plain and timestamped
    segments, segment_cache, windows, window_cache, window      window stores
    sessions, session                                           session stores
    versioned, version_segment                                  versioned stores
    outer_join, join_buffer, suppression, buffer_value          stores of joins and of suppress
"""
