#!/usr/bin/env bash
# check_symbols.sh [BUILD_FOLDER] - what the libraries show to the programs they are loaded into.
#
# The shared library exports names that begin hr_ and are not hr__ (those are for inside); the
# archive, where visibility cannot hide, has only hr_ and hr__ names, so that it cannot clash with
# anybody's; and neither asks for a library beyond the C library's own.
set -euo pipefail
build=${1:-build}
faults=0
fault() { echo "symbols: $*" >&2; faults=$((faults + 1)); }

shared=$build/libheadroom.so
archive=$build/libheadroom.a
for library in "$shared" "$archive"; do
    [ -e "$library" ] || { echo "symbols: no $library; build first" >&2; exit 1; }
done

exported=$(nm -D --defined-only "$shared" | awk '{ print $NF }')
[ -n "$exported" ] || fault "$shared exports nothing"
for symbol in $exported; do
    case $symbol in
    hr__*) fault "$shared exports $symbol, which is internal" ;;
    hr_*) ;;
    *) fault "$shared exports $symbol, which is not ours to name" ;;
    esac
done

for symbol in $(nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }'); do
    case $symbol in
    hr_*) ;;
    *) fault "$archive defines $symbol, which could clash" ;;
    esac
done

for needed in $(readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $needed in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | ld-linux*) ;;
    *) fault "$shared needs $needed" ;;
    esac
done

echo "symbols: $(wc -w <<<"$exported") exported, $faults faults"
[ $faults -eq 0 ]
