"""The topic ids of partitions without marks of failures, read together at a start.

For each partition, a start has to know the topic that it belongs to, and whether an earlier process has noted damage or a failed sync
in its directory. With thousands of partitions these are most of the system calls of a start. So they are made here, without the GIL:
a worker does it while the start does other work. Everything unusual is left to the caller.
"""

import os

from libc.errno cimport ENOENT, errno
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strlen

from broker_cy.storage.damage import FILE_NAME
from broker_cy.storage.data_directory import PARTITION_METADATA
from broker_cy.storage.syncs import FAILED_MARK

cdef extern from "<fcntl.h>" nogil:
    enum:
        O_RDONLY
        O_CLOEXEC
    int c_open "open"(const char* path, int flags)

cdef extern from "<sys/stat.h>" nogil:
    struct c_stat "stat":
        pass
    int stat_of "stat"(const char* path, c_stat* found)

cdef extern from "<unistd.h>" nogil:
    ssize_t c_read "read"(int fd, void* data, size_t size)
    int c_close "close"(int fd)

cdef enum:
    PATH_BYTES = 4096
    # A `partition.metadata` has 43 bytes. A longer one is left to the caller.
    CONTENT_BYTES = 63
    NOT_PLAIN = -1
    # Partitions in one piece of memory.
    AT_ONCE = 1024

cdef struct Found:
    int size
    char content[CONTENT_BYTES + 1]

cdef bytes MARKS_FAILED = os.fsencode(FAILED_MARK)
cdef bytes MARKS_DAMAGE = os.fsencode(FILE_NAME)
cdef bytes METADATA = os.fsencode(PARTITION_METADATA)


def plain_contents(root, names):
    """For each of `names`, a partition's directory in `root`: the content of its `partition.metadata`, if no mark of a failure is in
    the directory. None if there may be one, or if the file is missing, unusually long or not readable. Blocks; raises MemoryError.
    """
    cdef bytes prefix = os.fsencode(root) + b"/"
    cdef list contents = [], encoded
    cdef const char* parts[AT_ONCE]
    cdef Found* found = <Found*>malloc(AT_ONCE * sizeof(Found))
    cdef Py_ssize_t count, at
    cdef const char* start = prefix
    cdef const char* failed = MARKS_FAILED
    cdef const char* damage = MARKS_DAMAGE
    cdef const char* metadata = METADATA
    cdef bytes before = None, content
    if found == NULL:
        raise MemoryError()
    try:
        for begin in range(0, len(names), AT_ONCE):
            encoded = [os.fsencode(name) for name in names[begin : begin + AT_ONCE]]
            count = len(encoded)
            for at in range(count):
                parts[at] = <bytes>encoded[at]
            with nogil:
                for at in range(count):
                    look(&found[at], start, parts[at], failed, damage, metadata)
            for at in range(count):
                if found[at].size == NOT_PLAIN:
                    contents.append(None)
                    continue
                content = found[at].content[:found[at].size]
                # The files of a topic are equal.
                if content != before:
                    before = content
                contents.append(before)
    finally:
        free(found)
    return contents


cdef void look(Found* found, const char* root, const char* name, const char* failed, const char* damage,
               const char* metadata) noexcept nogil:
    cdef char path[PATH_BYTES]
    cdef size_t length = strlen(root), name_length = strlen(name)
    cdef ssize_t size
    cdef int fd
    found.size = NOT_PLAIN
    if length + name_length + 1 + strlen(failed) + strlen(damage) + strlen(metadata) >= PATH_BYTES:
        return
    memcpy(path, root, length)
    memcpy(path + length, name, name_length)
    length += name_length
    path[length] = c"/"
    length += 1
    if may_exist(path, length, failed) or may_exist(path, length, damage):
        return
    memcpy(path + length, metadata, strlen(metadata) + 1)
    fd = c_open(path, O_RDONLY | O_CLOEXEC)
    if fd < 0:
        return
    size = c_read(fd, found.content, CONTENT_BYTES + 1)
    c_close(fd)
    if 0 < size <= CONTENT_BYTES:
        found.size = <int>size


cdef bint may_exist(char* path, size_t length, const char* name) noexcept nogil:
    cdef c_stat found
    memcpy(path + length, name, strlen(name) + 1)
    return stat_of(path, &found) == 0 or errno != ENOENT
