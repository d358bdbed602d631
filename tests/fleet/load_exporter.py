#!/usr/bin/env python3
"""load_exporter.py PROGRAM LIVE_JOB - 64 jobs of a machine, and an exporter that 10 clients ask every second,
for SECONDS (600) seconds: its processor time, its memory, and whether every answer had every job. ALL_USERS=1: with
--all-users, which also finds the cgroup of every job.

By hand: the figures are in bench/results/fleet.md. Fails if it takes 2 % of a core or more, if its memory grows
by more than a tenth after the first minute, or if a job was missing from an answer.
"""
import os
import re
import threading
import time

import live_jobs
from live_jobs import GIB, FleetCase

JOBS, CLIENTS = 64, 10
SECONDS = int(os.environ.get("SECONDS", "600"))
ALL_USERS = os.environ.get("ALL_USERS", "0") == "1"
WARM_SECONDS = min(60, SECONDS // 2)


def processor_seconds(process: int) -> float:
    with open(f"/proc/{process}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(process: int) -> int:
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read()).group(1)) << 10


class Load(FleetCase):
    def ask(self, server, until: float, counts: list) -> None:
        at = time.monotonic()
        while at < until:
            text = server.scrape()
            counts.append((text.count("\nvramwise_live_bytes{"), len(text)))
            at += 1
            time.sleep(max(0, at - time.monotonic()))

    def test_it_stays_small(self):
        if ALL_USERS:
            self.pages.chmod(0o3777)
        jobs = [self.job(RANK=str(rank), SLURM_JOB_ID=str(rank // 8)) for rank in range(JOBS)]
        for job in jobs:
            job.tell("program=train.py", "device=0:NVIDIA H200", f"live_bytes={GIB}", f"reserved_bytes={2 * GIB}",
                     f"device_free_bytes={GIB}", "steps=40").leak()
        server = self.exporter("0", *(["--all-users"] if ALL_USERS else []))
        process = server.process.pid
        server.scrape()
        counts = [[] for _ in range(CLIENTS)]
        begin, used = time.monotonic(), processor_seconds(process)
        clients = [threading.Thread(target=self.ask, args=(server, begin + SECONDS, mine)) for mine in counts]
        for client in clients:
            client.start()
        warm_bytes, second = 0, 0
        while any(client.is_alive() for client in clients):
            jobs[second % JOBS].tell(f"live_bytes={GIB + second}")
            second += 1
            time.sleep(1)
            if second == WARM_SECONDS:
                warm_bytes = resident_bytes(process)
        share = (processor_seconds(process) - used) / (time.monotonic() - begin)
        end_bytes = resident_bytes(process)
        answers = [answer for mine in counts for answer in mine]
        print(f"{JOBS} jobs, {len(answers)} answers of {answers[-1][1]} bytes in {SECONDS} s: {100 * share:.2f} % of a "
              f"core, {warm_bytes >> 10} KiB after {WARM_SECONDS} s and {end_bytes >> 10} KiB at the end")
        self.assertEqual({jobs_seen for jobs_seen, _ in answers}, {JOBS})
        self.assertLess(end_bytes, warm_bytes * 1.1)
        self.assertLess(share, 0.02)


if __name__ == "__main__":
    live_jobs.main()
