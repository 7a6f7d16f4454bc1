#!/bin/sh
# make_venv.sh PYTHON DIR: a fresh virtual environment, or one line that says what is missing.
set -eu
python=$1 dir=$2
command -v "$python" >/dev/null || { echo "make: no $python here; install Python 3.11 or later" >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "make: $("$python" --version) is too old; use PYTHON=/path/to/python3.11 or later" >&2; exit 1; }
command -v gcc >/dev/null || { echo "make: no gcc here; install gcc (Debian: apt-get install gcc libc6-dev)" >&2; exit 1; }
header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include") + "/Python.h")')
[ -f "$header" ] || { echo "make: $header is missing; install the Python headers (Debian: apt-get install python3-dev)" >&2; exit 1; }
rm -rf "$dir"
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    # Debian ships ensurepip in a separate package.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
    else
        echo "make: this Python cannot make virtual environments; install python3-venv" >&2
        exit 1
    fi
fi
"$python" -m venv "$dir"
