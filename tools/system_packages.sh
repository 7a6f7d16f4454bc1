#!/bin/sh
# system_packages.sh [quick|all|soak]: system packages that the tests of `make test`, `make test-all` or `make soak` need, and
# pip cannot install. As root on Debian they are installed, otherwise listed. Some are necessary: without them it fails.
# Without the others, tests are skipped (tests/support/needs.py).
set -eu
tier=${1:-quick}
case $tier in
quick | all | soak) ;;
*) echo "system_packages.sh: the tier $tier is unknown (allowed: quick, all, soak)" >&2; exit 2 ;;
esac
missing=
useful=
# The directories of daemons, for users other than root.
PATH=$PATH:/usr/sbin:/sbin
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
use() { command -v "$1" >/dev/null 2>&1 || useful="$useful $2"; }
need kcat kcat
need node nodejs
need npm npm
need java default-jre-headless
need mvn maven
need chromium chromium
need valgrind valgrind
need tmux tmux
# Kerberos: a key distribution center, its tools, the headers for python-gssapi, and the mechanism for librdkafka of kcat.
need krb5kdc krb5-kdc
need kadmin.local krb5-admin-server
need kinit krb5-user
need krb5-config libkrb5-dev
# For the broker's TLS, which is built after this.
printf '#include <openssl/ssl.h>\n' | ${CC:-cc} -E - >/dev/null 2>&1 || missing="$missing libssl-dev"
set -- /usr/lib/*/sasl2/libgssapiv2.so
[ -e "$1" ] || missing="$missing libsasl2-modules-gssapi-mit"
# The programs of the tests that run in the JVM of Kafka's tools are compiled.
use javac default-jdk-headless
if [ "$tier" != quick ]; then
    use jq jq
    # The hosts of tests/lab and tests/deploy, which also need root; without root those tests are skipped.
    if [ "$(id -u)" = 0 ]; then
        need ip iproute2
        need nft nftables
        need mmdebstrap mmdebstrap
        need systemd-nspawn systemd-container
        need mkfs.ext4 e2fsprogs
        need ssh openssh-client
    fi
fi
# librdkafka's own tests.
[ "$tier" != soak ] || use g++ g++
[ -n "$missing$useful" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
    echo "installing for the tests:$missing$useful"
    # Without a list of packages, the next command fails.
    apt-get update -qq || true
    # shellcheck disable=SC2086
    [ -z "$missing" ] || install $missing
    # shellcheck disable=SC2086
    [ -z "$useful" ] || install $useful || echo "tests are skipped, because these packages were not installed:$useful" >&2
    exit 0
fi
[ -z "$useful" ] ||
    echo "tests are skipped, because these packages are missing:$useful (Debian: apt-get install$useful)" >&2
[ -z "$missing" ] || {
    echo "make test: these system packages are needed:$missing (Debian: apt-get install$missing)" >&2
    exit 1
}
