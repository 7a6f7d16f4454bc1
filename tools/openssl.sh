#!/bin/sh
# openssl.sh [DIR]: with BROKER_CY_OPENSSL=vendored, provide the OpenSSL with which the broker is linked: libssl.a,
# libcrypto.a and the headers, below DIR (build/openssl). It is built once, in two to three minutes on two cores, from
# the source in the crate openssl-src, which cargo fetches from its registry and compares with the checksum in
# tools/openssl/Cargo.lock.
#
# By default (BROKER_CY_OPENSSL=system) the system's library is used (Debian: libssl-dev); with none, TLS is left out;
# setup.py reads the same setting. If the source cannot be built, this prints the reason and exits with 0: setup.py then
# looks for the system's library, and without it the broker has no TLS.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-build/openssl}
case ${BROKER_CY_OPENSSL:-system} in
vendored) ;;
system | none) exit 0 ;;
*) echo "BROKER_CY_OPENSSL=$BROKER_CY_OPENSSL: expected system, vendored or none" >&2; exit 1 ;;
esac

version=$(sed -n 's/^version = ".*+\(3\..*\)"$/\1/p' "$here/openssl/Cargo.lock")
# Another version, or another way to build it, has another directory.
found=$dir/$version-$({ sed -n '/Configure"/,$p' "$0"; cat "$here/openssl/Cargo.lock"; } | cksum | cut -d' ' -f1)
if [ -f "$found/lib/libssl.a" ]; then
    # setup.py takes what this names.
    [ "$(cat "$dir/current" 2>/dev/null)" = "${found##*/}" ] || echo "${found##*/}" >"$dir/current"
    exit 0
fi

without() {
    echo "make: OpenSSL $version is not built: $1; the library of the system is used if its headers are installed (libssl-dev)" >&2
    rm -rf "$dir/current" "$work"
    exit 0
}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
found=$dir/${found##*/}
work=$dir/work.$$
for program in cargo perl make; do
    command -v $program >/dev/null || without "there is no $program"
done
perl -MFindBin -MIPC::Cmd -MFile::Compare -MFile::Copy -MTime::Piece -e 1 2>/dev/null || without "perl lacks its modules (perl-modules)"

echo "make: building OpenSSL $version, once" >&2
mkdir -p "$work/build"
cargo vendor --locked --quiet --manifest-path "$here/openssl/Cargo.toml" "$work/vendor" >/dev/null 2>"$work/log" ||
    without "cargo could not fetch its source: $(tail -n 1 "$work/log")"
cd "$work/build"
# Without what TLS 1.2 and 1.3 do not need. RC2 and DES stay: key stores of PKCS12 that older programs wrote are encrypted with
# them. --openssldir is where the system keeps the certificates that it trusts.
"$work/vendor/openssl-src/openssl/Configure" --prefix=/usr/local --libdir=lib --openssldir=/etc/ssl \
    no-shared no-module no-dso no-engine no-tests no-apps no-docs no-autoload-config no-ui-console \
    no-ssl3 no-tls1 no-tls1_1 no-dtls no-quic no-srp no-psk no-srtp no-nextprotoneg no-comp \
    no-aria no-bf no-blake2 no-camellia no-cast no-cmp no-cms no-ct no-dsa no-ec2m no-gost no-http no-idea no-md4 no-mdc2 \
    no-ml-dsa no-multiblock no-ocb no-rc4 no-rc5 no-rmd160 no-scrypt no-sctp no-seed no-siphash no-siv no-slh-dsa no-sm2 \
    no-sm3 no-sm4 no-ts no-whirlpool \
    -fvisibility=hidden -fPIC -g0 >"$work/log" 2>&1 || without "$(tail -n 1 "$work/log")"
# Not with the flags of the make that runs this.
env -u MAKEFLAGS -u MAKELEVEL make -s -j"$(nproc)" build_libs >"$work/log" 2>&1 || without "$(tail -n 1 "$work/log")"
env -u MAKEFLAGS -u MAKELEVEL make -s install_dev DESTDIR="$work/out" >"$work/log" 2>&1 || without "$(tail -n 1 "$work/log")"
rm -rf "$found"
mv "$work/out/usr/local" "$found"
echo "${found##*/}" >"$dir/current"
rm -rf "$work"
