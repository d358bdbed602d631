#!/usr/bin/env bash
# source_files.sh - the names of the files from which packages are built, each ended by a zero byte: what
# git has, and what is new and not ignored. Tests, benchmarks and the viewer's sources are not among them.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z --cached --others --exclude-standard -- CMakeLists.txt CHANGELOG.md LICENSE README.md \
    THIRD_PARTY adapters cli cmake completions debian docs examples include python src viewer/dist |
    while IFS= read -r -d '' name; do
        if [ -e "$name" ]; then printf '%s\0' "$name"; fi # it may be deleted, and not committed yet
    done
