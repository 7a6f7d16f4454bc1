#!/bin/sh
# openssl_gain.sh [ROUNDS]: CPU time under TLS with the OpenSSL of the system and with the vendored one, in turns (7 rounds), and
# the median of each: the figures in docs/performance.md. Needs the headers of the system's OpenSSL, cargo and perl.
set -eu
cd "$(dirname "$0")/.."
BROKER_CY_OPENSSL=vendored sh tools/openssl.sh
vendored=build/openssl/$(cat build/openssl/current)
compile() { program=$1; shift; ${CC:-gcc} -O2 -o "build/openssl/$program" tools/openssl_gain.c "$@"; }
compile gain-system -lssl -lcrypto
compile gain-vendored -I"$vendored/include" "$vendored/lib/libssl.a" "$vendored/lib/libcrypto.a" -pthread
for _ in $(seq "${1:-7}"); do
    build/openssl/gain-system
    build/openssl/gain-vendored
done | sort | awk -F '\t' '
    function median(values, n,   i, j, kept) {
        for (i = 2; i <= n; i++) for (j = i; j > 1 && values[j - 1] > values[j]; j--) {
            kept = values[j]; values[j] = values[j - 1]; values[j - 1] = kept
        }
        return values[int((n + 1) / 2)]
    }
    function show() { if (n) printf "%s: %.0f us per handshake, %.3f s per GB (medians of %d)\n", of, median(us, n), median(s, n), n }
    $1 != of { show(); of = $1; n = 0 }
    { us[++n] = $2; s[n] = $3 }
    END { show() }'
