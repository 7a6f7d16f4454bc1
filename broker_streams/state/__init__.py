"""State of tasks on disk: an LMDB file for each task, which hosts give to the kernel's stores as their maps.

A file is a cache of the changelogs: it may be lost at any time. It is stamped with the offsets of the changelogs that
it reflects, and written only with rows whose commit has succeeded, or with the undo of its last batch.

    stamp            what a file reflects, and whether it fits the changelogs
    file             the LMDB file: rows, numbers, stamp and undo in one transaction
    rows             keys as LMDB takes them
    writing          one transaction of a file
    runs             rows that are restored from nothing: in order, to be merged into the tree of a map
    scan             iterations
    disk_map         maps of stores: changed rows in memory above the file
    directory        state.dir: the directories of tasks, their locks and their deletion
    task_state       the state of one task, as hosts use it
    snapshots        copies of files in a directory that instances share
"""
