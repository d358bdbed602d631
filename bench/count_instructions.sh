#!/usr/bin/env bash
# Instructions per operation of each case of bench_alloc, counted by callgrind: repeatable whatever
# else the machine does. Of the thread that allocates: where the pool publishes what it holds ("live"),
# another one does that. Usage: count_instructions.sh BUILD_FOLDER [ENGINE] (torch)
set -euo pipefail
bench=${1:?usage: count_instructions.sh BUILD_FOLDER [ENGINE]}/bench/bench_alloc
engine=${2:-torch}
few=1000
many=11000
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export VRAMWISE_LIVE_DIR=$folder

total() { # CASE OPERATIONS CONF [--live]
    valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file="$folder/out" "$bench" \
        --engine "$engine" ${4:+"$4"} --count "$1" "$2" "$3" >"$folder/said" 2>&1 ||
        { cat "$folder/said" >&2; return 1; }
    sed -n 's/^\(totals\|summary\): \([0-9]*\).*/\2/p' "$folder/out-01" | head -n 1
    rm -f "$folder"/out*
}

echo "case,settings,instructions_per_operation"
confs=("")
label=$engine
if [ "$engine" = torch ]; then
    confs+=("expandable_segments:True")
    label=native
fi
count_all() { # CONF SETTINGS [--live]
    local case=0
    for name in "pair 512 B" "pair 64 KiB" "pair 2 MiB" "pair 256 MiB" "churn 256 live" "churn 4096 live"; do
        less=$(total $case $few "$1" ${3:+"$3"})
        more=$(total $case $many "$1" ${3:+"$3"})
        echo "$name,$2,$(((more - less) / (many - few)))"
        case=$((case + 1))
    done
}
for conf in "${confs[@]}"; do
    count_all "$conf" "${conf:-$label}"
done
count_all "" "$label live" --live
