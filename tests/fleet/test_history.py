#!/usr/bin/env python3
"""test_history.py PROGRAM LIVE_JOB [unittest arguments] - a day of made-up history of 64 ranks in a real Prometheus:
every query of the dashboard, every alert, every query of the documentation.

Each alert has its case: one rank, or one machine, in which it must fire. It must fire nowhere else: 56 ranks are
healthy all day, a few of them are started again. The families are those that the exporter tells of a job that
tells everything. No part of `make test`: `make test-fleet` runs it. Needs promtool and prometheus.
"""
import pathlib
import time

import live_jobs
from live_jobs import GIB, FleetCase, samples
from test_prometheus import Prometheus, counted, dashboard_labels, dashboard_queries, is_number, written_queries

RANKS, PER_NODE, INTERVAL, DAY = 64, 8, 120, 24 * 3600
HOUR = 3600
STEPS_PER_SECOND = 0.5
TOTAL = 80 * GIB
LEAK = 10 << 20  # a step
LEAK_BEGIN, LEAK_END = 10 * HOUR, 20 * HOUR
RESTART = 15 * HOUR  # of the ranks of the second machine: other processes, all counters from 0


def during(at: int, begin_hour: float, minutes: int) -> bool:
    return begin_hour * HOUR <= at < begin_hour * HOUR + minutes * 60


def passed(at: int, begin_hour: float, minutes: int) -> int:
    """Seconds of that stretch that have passed."""
    return max(0, min(at - int(begin_hour * HOUR), minutes * 60))


def healthy(at: int) -> dict:
    """A rank that is well, `at` seconds after its start."""
    steps = int(STEPS_PER_SECOND * at) + 1
    live = 40 * GIB + (at % 7) * (64 << 20)
    return {
        "live_bytes": live, "reserved_bytes": 50 * GIB, "peak_live_bytes": 41 * GIB, "peak_reserved_bytes": 50 * GIB,
        "largest_free_block_bytes": 4 * GIB, "limit_bytes": TOTAL, "device_total_bytes": TOTAL,
        "device_free_bytes": 25 * GIB, "allocations_total": 5000 * steps, "retries_total": 0,
        "out_of_memory_total": 0, "driver_calls_total": 400, "driver_seconds_total": 0.25, "pinned_bytes": GIB,
        "steps_total": steps, "step_seconds_total": float(at), "input_wait_seconds_total": 0.05 * at,
        "loader_workers": 8, "loader_pins": 1, "copied_bytes_total": 0, "spilled_bytes": 0, "spills_total": 0,
        "launch_gate": 3, "parked_bytes": 0, "page_age_seconds": 0.2, "room_bytes": 75 * GIB - live,
        "leak_bytes_per_step": 0, "info": 1, "device_info": 1, "start_time_seconds": 1.7e9}


def leaks(values: dict, at: int) -> None:
    if LEAK_BEGIN <= at < LEAK_END:
        left = int(STEPS_PER_SECOND * (LEAK_END - at))
        values.update(leak_bytes_per_step=LEAK, steps_until_full=left, room_bytes=left * LEAK)


def is_low(values: dict, at: int) -> None:
    if during(at, 6, 120):
        values.update(room_bytes=GIB)


def retries(values: dict, at: int) -> None:
    values["retries_total"] = passed(at, 7, 120) // 12


def runs_out(values: dict, at: int) -> None:
    values["out_of_memory_total"] = int(at >= 12 * HOUR)


def is_fragmented(values: dict, at: int) -> None:
    if during(at, 8, 120):
        values.update(live_bytes=30 * GIB, reserved_bytes=60 * GIB, device_free_bytes=GIB, room_bytes=31 * GIB)


def waits_for_input(values: dict, at: int) -> None:
    values["input_wait_seconds_total"] += 0.4 * passed(at, 9, 120)


def is_silent(values: dict, at: int) -> None:
    if during(at, 13, 20):
        values.update(healthy(13 * HOUR), page_age_seconds=float(passed(at, 13, 20)))


def stalls(values: dict, at: int) -> None:
    lost = passed(at, 14, 60)
    still = healthy(at - lost)
    values.update({name: still[name] for name in ("steps_total", "step_seconds_total", "input_wait_seconds_total")})


CASES = {3: leaks, 9: is_low, 18: retries, 20: runs_out, 27: is_fragmented, 33: waits_for_input, 41: is_silent, 50: stalls}
EXPECTED = {
    "VramwiseLeak": {"3"}, "VramwiseLeakFillsWithinTheHour": {"3"}, "VramwiseLow": {"9"}, "VramwiseRetries": {"18"},
    "VramwiseOutOfMemory": {"20"}, "VramwiseFragmented": {"27"}, "VramwiseInputBound": {"33"},
    "VramwiseJobSilent": {"41"}, "VramwiseJobStalled": {"50"},
    "VramwiseOtherVersion": {"node6:17470"}, "VramwiseExporterDown": {"node8:17470"}}


def is_down(node: int, at: int) -> bool:
    return node == 8 and during(at, 16, 30)


def labels_of(rank: int, at: int) -> str:
    node, pid = rank // PER_NODE + 1, 1000 + rank + (5000 if rank // PER_NODE == 1 and at >= RESTART else 0)
    pod = f',namespace="research",pod="train-{rank}"' if node <= 4 else ""
    return (f'instance="node{node}:17470",job="vramwise",pid="{pid}",page="vramwise-live-{1000 + node}-{pid}-0",'
            f'uid="{1000 + node}"{pod},rank="{rank}",job_id="77",program="train.py",allocator="pytorch"')


def lines_of_rank(rank: int, begin: int):
    case = CASES.get(rank, lambda values, at: None)
    for at in range(0, DAY, INTERVAL):
        if is_down(rank // PER_NODE + 1, at):
            continue
        values = healthy(at - RESTART if rank // PER_NODE == 1 and at >= RESTART else at)
        case(values, at)
        who = labels_of(rank, at)
        for name, value in values.items():
            more = {"info": ',version="0.2.0",world_size="64"', "start_time_seconds": "",
                    "device_info": ',device="0",device_name="NVIDIA H200"'}.get(name, ',device="0"')
            yield f"vramwise_{name}{{{who}{more}}} {value} {begin + at}\n"


def lines_of_node(node: int, begin: int):
    where = f'instance="node{node}:17470",job="vramwise"'
    for at in range(0, DAY, INTERVAL):
        yield f"up{{{where}}} {int(not is_down(node, at))} {begin + at}\n"
        if is_down(node, at):
            continue
        other = 2 if node == 6 and during(at, 11, 60) else 0
        for state, count in ("running", PER_NODE), ("other_version", other), ("busy", 0):
            yield f'vramwise_jobs{{{where},state="{state}"}} {count} {begin + at}\n'
        for name in "stale_pages", "refused_pages":
            yield f"vramwise_{name}{{{where}}} 0 {begin + at}\n"


def write_history(path: pathlib.Path, begin: int) -> int:
    count = 0
    with open(path, "w", encoding="utf-8") as file:
        for rank in range(RANKS):
            for line in lines_of_rank(rank, begin):
                file.write(line)
                count += 1
        for node in range(1, RANKS // PER_NODE + 1):
            for line in lines_of_node(node, begin):
                file.write(line)
                count += 1
        file.write("# EOF\n")
    return count


def fires(values: list, seconds: float) -> bool:
    """Whether a condition held for so long, at every look, one a minute."""
    since = before = None
    for at, _ in values:
        if before is None or at - before > 60:
            since = at
        if at - since >= seconds:
            return True
        before = at
    return False


class History(FleetCase):
    def setUp(self) -> None:
        super().setUp()
        self.begin = (int(time.time()) - DAY) // INTERVAL * INTERVAL
        began = time.monotonic()
        text = self.folder / "history.txt"
        count = write_history(text, self.begin)
        size = text.stat().st_size
        self.promtool("tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=54h", "--quiet", text,
                      self.folder / "series", limit=600)
        text.unlink()
        stored = sum(path.stat().st_size for path in (self.folder / "series").rglob("*") if path.is_file())
        print(f"{count} samples of {RANKS} ranks: {size >> 20} MiB of text, {stored >> 10} KiB stored "
              f"({stored / count:.2f} bytes a sample), loaded in {time.monotonic() - began:.0f} s")
        self.prometheus = Prometheus(self, [])

    def asked_for_a_day(self, query: str, step: int = 60) -> list:
        return self.prometheus.get("query_range", query=query, start=self.begin, end=self.begin + DAY - 1,
                                   step=step)["result"]

    def test_a_day_of_64_ranks(self):
        self.families()
        self.alerts()
        self.dashboard()
        self.labels()
        for query in written_queries():
            self.asked_for_a_day(query)

    def families(self) -> None:
        """What was made up is what an exporter tells."""
        job = self.job(RANK="3", SLURM_JOB_ID="77", WORLD_SIZE="8")
        job.tell("program=train.py", "allocator=pytorch", "device=0:NVIDIA H200", *counted(1)).leak()
        told = {name for name, _, _ in samples(self.exporter().scrape())}
        made = set(self.prometheus.get("label/__name__/values")) - {"up", "ALERTS", "ALERTS_FOR_STATE"}
        self.assertEqual(made, told)

    def alerts(self) -> None:
        rules = self.prometheus.get("rules")["groups"][0]["rules"]
        self.assertEqual({rule["name"] for rule in rules}, set(EXPECTED))
        for rule in rules:
            self.assertEqual(rule.get("lastError", ""), "", rule["name"])
            found = {series["metric"].get("rank", series["metric"]["instance"])
                     for series in self.asked_for_a_day(rule["query"]) if fires(series["values"], rule["duration"])}
            self.assertEqual(found, EXPECTED[rule["name"]], rule["name"])
            print(f"{rule['name']}: fires for {', '.join(sorted(found))} alone")

    def dashboard(self) -> None:
        took = {}
        for name, query in dashboard_queries().items():
            if name.startswith("annotation"):
                continue  # ALERTS are made while Prometheus runs: test_prometheus.py
            began = time.monotonic()
            result = self.asked_for_a_day(query.replace("[1m]", "[8m]"), 300)
            took[name] = time.monotonic() - began
            known = [series for series in result if any(is_number(value) for _, value in series["values"])]
            self.assertTrue(known, f"{name}: {query}")
            ranks = {series["metric"]["rank"] for series in known if "rank" in series["metric"]}
            if ranks and "steps_until_full" not in query:
                self.assertEqual(len(ranks), RANKS, f"{name}: {query}")
        slowest = max(took, key=took.get)
        print(f"{len(took)} queries of the dashboard over the day: {sum(took.values()):.1f} s in all, "
              f"the slowest {took[slowest]:.2f} s ({slowest})")

    def labels(self) -> None:
        counts = {"instance": 8, "job_id": 1, "uid": 8, "namespace": 1, "pod": 32, "program": 1, "rank": RANKS, "device": 1}
        for series, label in dashboard_labels():
            values = self.prometheus.get(f"label/{label}/values", **{"match[]": series}, start=self.begin)
            self.assertEqual(len(values), counts.pop(label), label)
        self.assertEqual(counts, {})


class Token(FleetCase):
    def test_prometheus_scrapes_an_exporter_that_asks_for_a_token(self):
        token = self.folder / "token"
        token.write_text("an-example-token-1234\n")
        server = self.exporter("127.0.0.1:0", "--all-users", "--token-file", str(token))
        prometheus = Prometheus(self, [f"127.0.0.1:{server.port}"], authorization={"credentials_file": str(token)},
                                sample_limit=50000, label_value_length_limit=300)
        self.wait_until(lambda: [sample["value"][1] for sample in prometheus.ask("up")] == ["1"], "a scrape")


if __name__ == "__main__":
    live_jobs.main()
