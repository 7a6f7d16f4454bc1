#!/bin/sh
# librdkafka_suite.sh [DIR]: have the program of librdkafka's own tests below DIR (build/librdkafka-suite), built once, in two
# minutes, from the source in the npm package of Confluent's JavaScript client, whose version and checksum are below.
# Prints the directory to run `test-runner` in.
set -eu
version=1.10.1
sum=ada7d703bb1d3237e2292bfabf438d663b6160c9f1ac2a2406b5dc4257c81b66
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$here/../build/librdkafka-suite}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
source=$dir/package/deps/librdkafka
if ! cmp -s "$0" "$dir/built-by"; then
    rm -rf "$dir/package"
    cd "$dir"
    npm pack --silent "@confluentinc/kafka-javascript@$version" >/dev/null
    archive=confluentinc-kafka-javascript-$version.tgz
    echo "$sum  $archive" | sha256sum --check --quiet >&2
    tar -xzf "$archive" package/deps/librdkafka
    rm "$archive"
    cd "$source"
    # The test of re-authentication creates a topic with three replicas; here there is one node.
    sed -i 's/topic, 1, 3, 5000)/topic, 1, 1, 5000)/' tests/0142-reauthentication.c
    # The test of share consumers expects each codec; zstd would need its headers on the machine.
    sed -i '/do_test_compression_codec("zstd")/d' tests/0171-share_consumer_consume.c
    CFLAGS=-O0 CXXFLAGS=-O0 bash ./configure --disable-zstd --disable-curl >"$dir/log" 2>&1
    env -u MAKEFLAGS make -s -j"$(nproc)" libs >>"$dir/log" 2>&1
    env -u MAKEFLAGS make -s -j"$(nproc)" -C tests test-runner >>"$dir/log" 2>&1
    cp "$here/$(basename "$0")" "$dir/built-by"
fi
echo "$source/tests"
