#!/usr/bin/env bash
# Instructions per operation of each case of bench_alloc, counted by callgrind: repeatable whatever
# else the machine does. Usage: count_instructions.sh BUILD_FOLDER [ENGINE] (torch)
set -euo pipefail
bench=${1:?usage: count_instructions.sh BUILD_FOLDER [ENGINE]}/bench/bench_alloc
engine=${2:-torch}
few=1000
many=11000

total() { # CASE OPERATIONS CONF
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" --engine "$engine" \
        --count "$1" "$2" "$3" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

echo "case,settings,instructions_per_operation"
confs=("")
label=$engine
if [ "$engine" = torch ]; then
    confs+=("expandable_segments:True")
    label=native
fi
for conf in "${confs[@]}"; do
    case=0
    for name in "pair 512 B" "pair 64 KiB" "pair 2 MiB" "pair 256 MiB" "churn 256 live" "churn 4096 live"; do
        less=$(total $case $few "$conf")
        more=$(total $case $many "$conf")
        echo "$name,${conf:-$label},$(((more - less) / (many - few)))"
        case=$((case + 1))
    done
done
