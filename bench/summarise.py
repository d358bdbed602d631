#!/usr/bin/env python3
"""summarise.py - medians of what on_gpu.sh measured, as a table: summarise.py FILE.csv"""
import collections
import statistics
import sys

LABELS = {"512": "pair, 512 B", "65536": "pair, 64 KiB", "2097152": "pair, 2 MiB", "268435456": "pair, 256 MiB",
          "256 live": "churn, 256 live", "4096 live": "churn, 4096 live"}

times = collections.defaultdict(list)  # (parameter, settings, threads) -> nanoseconds, one a turn
with open(sys.argv[1], encoding="utf-8") as file:
    for line in file:
        fields = line.rstrip("\n").split(",")
        if fields[0] in ("pair", "churn"):
            times[fields[1], fields[2], fields[3]].append(float(fields[5]))

PEER = "pytorch native"


def table(settings):
    print(f"\nsettings: {settings}\n")
    print("| | vramwise | PyTorch | ratio | fastest turns | vramwise, 8 threads | PyTorch, 8 threads | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for parameter, label in LABELS.items():
        cells = []
        for threads in ("1", "8"):
            ours, theirs = times[parameter, settings, threads], times[parameter, PEER, threads]
            a, b = statistics.median(ours), statistics.median(theirs)
            cells += [f"{a:.0f}", f"{b:.0f}", f"{b / a:.1f}"]
            if threads == "1":
                cells.append(f"{min(ours):.0f} beside {min(theirs):.0f}")
        print(f"| {label} | " + " | ".join(cells) + " |")


found = dict.fromkeys(settings for _, settings, _ in times)  # in the order of the file
for settings in found:
    if not settings.startswith("pytorch") and settings != "expandable_segments:True":
        table(settings)
print(f"\n{len(times['512', 'native', '1'])} turns of one thread, one of eight.")
