#!/bin/sh
# Builds a copy of the tree in build/asan with AddressSanitizer and UBSan, and runs there the tests of core, wire, storage and
# the server's connections, and a short fuzz. The extensions in place are not changed. Arguments go to pytest instead of the
# list of tests; BROKER_CY_FUZZ_SCALE (default 0.04) sets the share of the million inputs that is run.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
copy=$root/build/asan
python=$root/.venv/bin/python
[ -x "$python" ] || { echo "make asan: there is no .venv; run make build first" >&2; exit 1; }
compiler=${CC:-gcc}
libasan=$(gcc -print-file-name=libasan.so)
[ -e "$libasan" ] || { echo "make asan: gcc has no libasan (Debian: apt-get install libasan8)" >&2; exit 1; }

# Sources only: extensions in place belong to another build. Times are kept, so that only changed files are compiled again.
mkdir -p "$copy"
sources() {
    find broker_cy bench tests tools docs requirements setup.py setup.cfg pyproject.toml README.md LICENSE Makefile -type f \
        ! -name '*.so' ! -name '*.pyc' ! -path '*/node_modules/*' \( ! -name '*.c' -o -path '*/includes/*' \) | LC_ALL=C sort
}
sources > "$copy/.sources.new"
if [ -f "$copy/.sources" ]; then
    LC_ALL=C comm -13 "$copy/.sources.new" "$copy/.sources" | while read -r gone; do
        rm -f "$copy/$gone" "$copy/${gone%.pyx}".c "$copy/${gone%.pyx}".*.so
    done
fi
tar -cf - -T "$copy/.sources.new" | tar -xf - -C "$copy"
mv "$copy/.sources.new" "$copy/.sources"

# OpenSSL itself is not built again.
mkdir -p "$copy/build"
if [ -d build/openssl ]; then ln -sfn "$root/build/openssl" "$copy/build/openssl"; fi

cd "$copy"
CC=$compiler BROKER_CY_SANITIZE=1 "$python" setup.py -q build_ext

# Leaks are counted by the fuzz targets: the sanitizer would report everything that the interpreter keeps until it exits.
export ASAN_OPTIONS="detect_leaks=0:abort_on_error=1:halt_on_error=1:detect_stack_use_after_return=1:allocator_may_return_null=1"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
# PYTHONPATH: a broker that a test starts also runs from the copy, and not from the tree that is installed in the venv.
export PYTHONMALLOC=malloc PYTHONFAULTHANDLER=1 PYTHONPATH=$copy
export BROKER_CY_FUZZ_SCALE="${BROKER_CY_FUZZ_SCALE:-0.04}"
preloaded() { LD_PRELOAD=$libasan "$@"; }

preloaded "$python" - <<'EOF'
# The copy is tested, and it is instrumented.
import pathlib
import broker_cy.core.cursor as cursor
assert pathlib.Path(cursor.__file__).is_relative_to(pathlib.Path.cwd()), cursor.__file__
assert b"__asan_report" in pathlib.Path(cursor.__file__).read_bytes(), "the extensions are not instrumented"
EOF
if [ $# -eq 0 ]; then
    set -- tests/broker_cy/core tests/broker_cy/wire tests/broker_cy/storage tests/broker_cy/connections/test_connection.py \
        tests/broker_cy/connections/test_reset.py tests/broker_cy/network/test_tls_listener.py tests/fuzz
fi
preloaded "$python" -m pytest -q -p no:cacheprovider -n "${WORKERS:-2}" -m "not soak" --timeout 900 "$@"
