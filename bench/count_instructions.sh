#!/usr/bin/env bash
# Instructions per operation of each case of bench_alloc, first-level cache misses and mispredicted
# branches, counted by callgrind: repeatable whatever else the machine does. The cache has 48 KiB in
# 12 ways on every machine; branches are predicted by valgrind's model, which is simpler than any
# processor's. Of the thread that allocates: where the pool publishes what it holds ("live"), another
# one does that.
# Usage: count_instructions.sh BUILD_FOLDER [ENGINE] (torch)
set -euo pipefail
bench=${1:?usage: count_instructions.sh BUILD_FOLDER [ENGINE]}/bench/bench_alloc
engine=${2:-torch}
few=1000
many=11000
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export VRAMWISE_LIVE_DIR=$folder

total() { # CASE OPERATIONS CONF [--live]: instructions, misses, mispredicted branches
    valgrind --tool=callgrind --separate-threads=yes --cache-sim=yes --branch-sim=yes --D1=49152,12,64 \
        --callgrind-out-file="$folder/out" "$bench" --engine "$engine" ${4:+"$4"} --count "$1" "$2" "$3" \
        >"$folder/said" 2>&1 || { cat "$folder/said" >&2; return 1; }
    awk '$1 == "events:" { for (i = 2; i <= NF; i++) at[$i] = i }
         ($1 == "totals:" || $1 == "summary:") && !done {
             print $at["Ir"], $at["D1mr"] + $at["D1mw"], $at["Bcm"] + $at["Bim"]; done = 1 }' "$folder/out-01"
    rm -f "$folder"/out*
}

echo "case,settings,instructions_per_operation,l1_misses,mispredicted_branches"
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
        awk -v name="$name,$2" -v operations=$((many - few)) '
            function each(i) { return $i > less[i] ? ($i - less[i]) / operations : 0 }
            NR == 1 { split($0, less) }
            NR == 2 { printf "%s,%d,%.1f,%.1f\n", name, each(1), each(2), each(3) }' <<<"$less
$more"
        case=$((case + 1))
    done
}
for conf in "${confs[@]}"; do
    count_all "$conf" "${conf:-$label}"
done
count_all "" "$label live" --live
