#!/bin/sh
# sslyze.sh [PYTHON]: install the scanner sslyze into build/sslyze, a separate environment, because it needs an older
# cryptography than the rest. It is installed once for each requirements/sslyze.lock; prints the path of its Python.
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
dir=$PWD/build/sslyze
if ! cmp -s requirements/sslyze.lock "$dir/installed.lock"; then
    sh tools/make_venv.sh "$python" "$dir" >&2
    "$dir/bin/pip" install -q --disable-pip-version-check --require-hashes -r requirements/installer.lock >&2
    "$dir/bin/python" tools/install.py --require-hashes -r requirements/sslyze.lock >&2
    cp requirements/sslyze.lock "$dir/installed.lock"
fi
echo "$dir/bin/python"
