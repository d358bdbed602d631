#!/usr/bin/env bash
# bare_build.sh CMAKE CC - a build on a machine that has none of the libraries: CMake says in a line each
# what is missing, the rest works, and what is not there says so.
set -euo pipefail
cmake=$1 cc=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "bare_build: $*" >&2; exit 1; }

without=()
for library in ZLIB LZMA ZSTD MICROHTTPD SQLITE NCURSES; do without+=("-DVW_WITH_$library=OFF"); done
"$cmake" -S "$root" -B "$folder/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Debug -DVW_TESTS=OFF \
    -DVW_BENCH=OFF -DVW_EXAMPLES=OFF -DVW_WERROR=ON -DCMAKE_C_FLAGS_DEBUG=-O0 "${without[@]}" \
    --log-level=NOTICE >"$folder/configured" 2>&1 || { cat "$folder/configured"; fail "cmake failed"; }
said=$(grep '^no ' "$folder/configured")
[ "$said" = "no zlib: files compressed with gzip are not read, view is not built
no liblzma: files compressed with xz are not read
no libzstd: files compressed with zstd are not read
no libmicrohttpd: view --serve, exporter and run --metrics are not built
no sqlite3: report writes no SQLite files
no ncursesw: top has no screen, only --once" ] || fail "cmake said: $said"
"$cmake" --build "$folder/build" --parallel --target vramwise_cli >"$folder/built" 2>&1 ||
    { tail -n 40 "$folder/built"; fail "the build failed"; }
program=$folder/build/vramwise

# refuses STATUS PATTERN ARGUMENT...
refuses() {
    local wanted=$1 pattern=$2 status=0
    shift 2
    "$program" "$@" >"$folder/said" 2>&1 </dev/null || status=$?
    [ $status = "$wanted" ] || { cat "$folder/said"; fail "vramwise $*: status $status, not $wanted"; }
    [ -z "$pattern" ] || grep -q -- "$pattern" "$folder/said" || { cat "$folder/said"; fail "vramwise $*: no '$pattern'"; }
}
xz=$root/tests/data/recordings/streams.native.pickle.xz
xz -dc "$xz" >"$folder/run.pickle"
gzip -c "$folder/run.pickle" >"$folder/run.pickle.gz"
zstd -q "$folder/run.pickle" -o "$folder/run.pickle.zst"
refuses 3 "run.pickle.*compressed with gzip, and this build has no zlib" stats "$folder/run.pickle.gz"
refuses 3 "compressed with xz, and this build has no liblzma" stats "$xz"
refuses 3 "compressed with zstd, and this build has no libzstd" stats "$folder/run.pickle.zst"
refuses 3 "this build has no zlib, which the page needs" view "$folder/run.pickle"
refuses 3 "this build has no libmicrohttpd" view --serve "$folder/run.pickle"
refuses 3 "this build has no libmicrohttpd" exporter
refuses 125 "this build has no libmicrohttpd" run --metrics 0 -- true
refuses 3 "this build has no libsqlite3" report --jobs "$folder" -o "$folder/t.sqlite"
refuses 3 "this build has no ncurses.*--once" top
refuses 0 "peak" stats "$folder/run.pickle"
refuses 0 "expandable" replay "$folder/run.pickle"
refuses 0 "" run -- true
refuses 0 "" top --once
