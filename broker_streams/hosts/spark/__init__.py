"""The host on Spark: Structured Streaming triggers batches, and tasks of the kernel process them in Spark's workers.

    host      the driver: one streaming query for each sub-topology, started again after a failure
    rounds    batch after batch of a query: wait for records, a job of Spark, commit
    query     the batches of one query: what each task reads, and the commit of all of them
    progress  the record of each batch in the topic __pipeline_progress
    topics    the numbers of partitions, and the internal topics
    shipped   an application as a file, for workers that have neither its source nor its modules
    daemon    the process from which Spark forks its workers on this machine
    task      a partition of a job: the work of one task
    worker    one task in one batch: read, process, write

A row of a job is the work of one task: its ranges of offsets, and the identity of its producer. Records do not pass
through the JVM: the worker reads them from the brokers and writes to the brokers. It costs less than a way through two
sockets and Arrow, and keeps the kernel's order of the records of several topics.

Plans and commits are made in the process of the driver. Data sources in Python would do the same in processes of their
own: one for each query, and one for each commit.

Each task writes in a transaction of its own, with the offsets of its inputs in it, so that a task is exact by itself.
`query.Query` makes a batch of all tasks one: it commits their transactions after a record in the progress topic, which
names them, is committed. The next driver ends what such a record names, and aborts all else.
"""
