from libc.stdint cimport int32_t


cpdef bytes window_key(bytes key, long long start_ms, int32_t sequence=*)
cpdef bytes session_key(bytes key, long long start_ms, long long end_ms)
