"""The host on Spark: Structured Streaming plans the batches, and tasks of the kernel process them in Spark's workers.

    host      the driver: one streaming query for each sub-topology, started again after a failure
    query     the batches of one query: what each task reads, and the commit of all of them
    progress  the record of each batch in the topic __pipeline_progress
    topics    the numbers of partitions, and the internal topics
    source    Spark's data source: its reader and its writer only pass work on
    link      between Spark's Python processes on the driver's machine, and the driver
    shipped   an application as a file, for workers that have neither its source nor its modules
    worker    one task in one batch: read, process, write

A row of the data source is the work of one task: its ranges of offsets, and the identity of its producer. Records do
not pass through the JVM: the worker reads them from the brokers and writes to the brokers. It costs less than a way
through two sockets and Arrow, and keeps the kernel's order of the records of several topics.

Each task writes in a transaction of its own, with the offsets of its inputs in it, so that a task is exact by itself.
`query.Query` makes a batch of all tasks one: it commits their transactions after a record in the progress topic, which
names them, is committed. The next driver ends what such a record names, and aborts all else.
"""
