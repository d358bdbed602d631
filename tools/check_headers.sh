#!/usr/bin/env bash
# check_headers.sh - every header stands alone.
#
# Each of ours is compiled by itself as C11, with and without VW_CHECKS, with all warnings as
# errors; the public ones as C++11 too, and as plain C11 without _GNU_SOURCE, as a stranger would.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
cc=${CC:-cc}
cxx=${CXX:-$(command -v c++ || command -v clang++ || command -v g++)}
[ -n "$cxx" ] || { echo "headers: no C++ compiler" >&2; exit 1; }
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror)
c_warnings=("${warnings[@]}" -Wstrict-prototypes -Wmissing-prototypes)
count=0
faults=0

# try HEADER COMPILER... - compiles a file that includes HEADER twice and nothing else.
try() {
    local header=$1
    shift
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
        "$@" -fsyntax-only - || { echo "headers: $header: fails with $*" >&2; faults=$((faults + 1)); }
}

for path in include/vramwise/*.h; do
    header=${path#include/}
    count=$((count + 1))
    try "$header" "$cc" -x c -std=c11 "${c_warnings[@]}" -Iinclude
    try "$header" "$cxx" -x c++ -std=c++11 "${warnings[@]}" -Iinclude
done
for path in adapters/torch/support/*.h; do
    header=${path##*/}
    count=$((count + 1))
    try "$header" "$cc" -x c -std=c11 "${c_warnings[@]}" -Iinclude -Iadapters/torch/support
done
try vramwise_torch_support.h "$cxx" -x c++ -std=c++11 "${warnings[@]}" -Iinclude \
    -Iadapters/torch/support
while IFS= read -r path; do
    header=${path#src/}
    count=$((count + 1))
    for checks in -UVW_CHECKS -DVW_CHECKS; do
        try "${header#cli/}" "$cc" -x c -std=c11 -D_GNU_SOURCE $checks "${c_warnings[@]}" \
            -Iinclude -Isrc -Icli
    done
done < <(find src cli -name '*.h' | sort)

echo "headers: $count headers, $faults faults"
[ $count -gt 0 ] && [ $faults -eq 0 ]
