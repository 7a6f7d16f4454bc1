#!/bin/sh
# librdkafka_suite.sh [DIR]: have the program of librdkafka's own tests below DIR (build/librdkafka-suite), built once, in two
# minutes, from the source in the crate rdkafka-sys, which cargo compares with the checksum in tools/librdkafka_suite/Cargo.lock.
# Prints the directory to run `test-runner` in.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$here/../build/librdkafka-suite}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
source=$dir/vendor/rdkafka-sys/librdkafka
if ! cmp -s "$0" "$dir/built-by"; then
    rm -rf "$dir/vendor"
    cargo vendor --locked --quiet --manifest-path "$here/librdkafka_suite/Cargo.toml" "$dir/vendor" >/dev/null
    cd "$source"
    # The test of re-authentication creates a topic with three replicas; here there is one node.
    sed -i 's/topic, 1, 3, 5000)/topic, 1, 1, 5000)/' tests/0142-reauthentication.c
    CFLAGS=-O0 CXXFLAGS=-O0 ./configure --disable-zstd --disable-curl >"$dir/log" 2>&1
    env -u MAKEFLAGS make -s -j"$(nproc)" libs >>"$dir/log" 2>&1
    env -u MAKEFLAGS make -s -j"$(nproc)" -C tests test-runner >>"$dir/log" 2>&1
    cp "$here/$(basename "$0")" "$dir/built-by"
fi
echo "$source/tests"
