#!/bin/sh
# System packages that tests need and pip cannot install: installed as root on Debian, otherwise listed.
set -eu
missing=
# The directories of daemons, for users other than root.
PATH=$PATH:/usr/sbin:/sbin
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
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
# The hosts of tests/lab and tests/deploy, which also need root; without root those tests are skipped.
if [ "$(id -u)" = 0 ]; then
    need ip iproute2
    need nft nftables
    need mmdebstrap mmdebstrap
    need systemd-nspawn systemd-container
    need mkfs.ext4 e2fsprogs
    need ssh openssh-client
fi
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing for the tests:$missing"
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "make test: these system packages are needed:$missing (Debian: apt-get install$missing)" >&2
    exit 1
fi
