#!/usr/bin/env bash
# Instructions per operation of each case of bench_alloc, counted by callgrind: repeatable whatever
# else the machine does. Usage: count_instructions.sh BUILD_FOLDER
set -euo pipefail
bench=${1:?usage: count_instructions.sh BUILD_FOLDER}/bench/bench_alloc
few=1000
many=11000

total() { # CASE OPERATIONS CONF
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" --count "$1" "$2" "$3" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

echo "case,settings,instructions_per_operation"
for conf in "" "expandable_segments:True"; do
    case=0
    for name in "pair 512 B" "pair 64 KiB" "pair 2 MiB" "pair 256 MiB" "churn 256 live" "churn 4096 live"; do
        less=$(total $case $few "$conf")
        more=$(total $case $many "$conf")
        echo "$name,${conf:-native},$(((more - less) / (many - few)))"
        case=$((case + 1))
    done
done
