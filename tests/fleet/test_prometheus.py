#!/usr/bin/env python3
"""test_prometheus.py PROGRAM LIVE_JOB [unittest arguments] - a real Prometheus on loopback that scrapes
running jobs; every query of the dashboard and every alert rule of docs/fleet.

A method's name is the sentence that is true when it passes.
"""
import json
import re
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

import live_jobs
from live_jobs import GIB, LIMIT_SECONDS, ROOT, FleetCase, samples

FLEET = ROOT / "docs/fleet"
RULES = FLEET / "prometheus/alerts.yml"
DASHBOARD = FLEET / "grafana/vramwise-dashboard.json"

# What takes minutes, a stranger's version or a dead exporter to have data: alerts_test.yml has them.
LATE_ALERTS = {"VramwiseJobSilent", "VramwiseJobStalled", "VramwiseOtherVersion", "VramwiseExporterDown"}

VARIABLES = {"$__rate_interval": "1m", "$__range": "5m", "$instance": ".*", "$job_id": ".*",
             "$program": ".*", "$rank": ".*", "$device": ".*", "$uid": ".*", "$namespace": ".*", "$pod": ".*"}

# Labels that only an exporter for all users gives: test_history.py has them.
LABELS_OF_ALL_USERS = {"uid", "namespace", "pod"}


# What the schemas of these panels require in their options.
NEEDED_OPTIONS = {
    "row": set(), "timeseries": {"legend", "tooltip"}, "table": {"frameIndex", "showHeader"},
    "stat": {"reduceOptions", "colorMode", "graphMode", "textMode", "justifyMode", "orientation", "wideLayout",
             "showPercentChange", "percentChangeColorMode"}}


def without_variables(query: str) -> str:
    for name in sorted(VARIABLES, key=len, reverse=True):
        query = query.replace(name, VARIABLES[name])
    assert "$" not in query, query
    return query


def dashboard_queries() -> dict:
    """Of each panel's queries, and of each variable and annotation, what it asks for."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = {}
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            found[f"{panel['title']} {target['refId']}"] = without_variables(target["expr"])
    for note in board["annotations"]["list"]:
        found[f"annotation {note['name']}"] = without_variables(note["expr"])
    return found


def dashboard_labels() -> list:
    """(series, label) of each variable that lists the values of a label."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = [variable["query"]["query"] for variable in board["templating"]["list"]
             if variable["type"] == "query"]
    return [re.fullmatch(r"label_values\((.*), (\w+)\)", without_variables(text)).groups()
            for text in asked]


def written_queries() -> list:
    """Those that README.md suggests."""
    text = (FLEET / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^# .*\n(.*vramwise_.*)$", text, re.M)


def counted(step: int) -> list:
    """All that a job can tell, at some step: a leak, retries, a loader that is too slow."""
    live = GIB + step * (1 << 20)
    values = {
        "live_bytes": live, "reserved_bytes": 2 * GIB, "peak_live_bytes": live,
        "peak_reserved_bytes": 2 * GIB, "largest_free_block_bytes": 1 << 20, "limit_bytes": 80 * GIB,
        "device_total_bytes": 80 * GIB, "device_free_bytes": GIB, "allocations": 1000 * step,
        "retries": 10 * step, "out_of_memory": step, "driver_calls": 20 * step,
        "driver_nanoseconds": 10**6 * step, "pinned_bytes": 1 << 20, "steps": 1000 * step,
        "step_nanoseconds": 10**8 * step, "input_wait_nanoseconds": 5 * 10**7 * step,
        "loader_workers": 1, "loader_pins": 0, "copied_bytes": step, "spilled_bytes": 1 << 20,
        "spills": step, "launch_gate": 3, "parked_bytes": 1 << 20}
    return [f"{name}={value}" for name, value in values.items()]


class Prometheus:
    """On loopback, with a folder and a port of its own, that scrapes `targets` several times a second. (It
    takes 5 seconds to begin.)"""

    def __init__(self, case: FleetCase, targets: list, **settings):
        """`settings` are more of the scrape configuration."""
        config = case.folder / "prometheus.yml"
        config.write_text(json.dumps({  # which is YAML
            "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms",
                       "evaluation_interval": "200ms"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "vramwise", "scrape_timeout": "200ms",
                                "static_configs": [{"targets": targets}], **settings}]}), encoding="utf-8")
        self.process = subprocess.Popen(
            [case.tool("prometheus"), f"--config.file={config}", "--web.listen-address=127.0.0.1:0",
             f"--storage.tsdb.path={case.folder / 'series'}"],
            cwd=case.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)
        case.addCleanup(self.end)
        self.said = []
        self.address = ""
        for line in self.process.stderr:
            self.said.append(line)
            found = re.search(r'msg="Listening on" address=(\S+)', line)
            if found:
                self.address = found.group(1)
            if "ready to receive web requests" in line:
                break
        case.assertNotEqual(self.address, "", "".join(self.said))
        self.reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr))
        self.reader.start()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(LIMIT_SECONDS)
        if hasattr(self, "reader"):
            self.reader.join()
        self.process.stderr.close()

    def get(self, path: str, **parameters):
        """The data of an answer; AssertionError with Prometheus' words for a query that is wrong."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=LIMIT_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as reason:
            raise AssertionError(f"{parameters}: {reason.read().decode()}") from reason

    def ask(self, query: str) -> list:
        return self.get("query", query=query)["result"]


class Rules(FleetCase):
    def test_promtool_accepts_the_rules_and_the_configuration(self):
        self.promtool("check", "rules", RULES)
        self.promtool("check", "config", FLEET / "prometheus/prometheus.yml")
        text = (FLEET / "kubernetes/prometheus.yml").read_text(encoding="utf-8")
        found = re.compile(r"^    kubernetes_sd_configs:\n(?:      .*\n)+", re.M)  # which Debian's Prometheus has not
        self.assertEqual(len(found.findall(text)), 1)
        config = self.folder / "kubernetes.yml"
        config.write_text(found.sub("    static_configs:\n      - targets: [node1:17470]\n", text))
        self.promtool("check", "config", "--syntax-only", config)

    def test_every_alert_says_what_it_should_to_made_up_jobs(self):
        tests = ROOT / "tests/fleet/alerts_test.yml"
        self.promtool("test", "rules", tests)
        alerts = set(re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8")))
        tested = set(re.findall(r"alertname: (\w+)", tests.read_text(encoding="utf-8")))
        self.assertEqual(alerts, tested)
        self.assertLess(LATE_ALERTS, alerts)

    def test_every_family_is_told_of_and_has_a_place_in_the_manual(self):
        text = self.exporter().scrape()
        families = set(re.findall(r"^# TYPE vramwise_(\w+) ", text, re.M))
        manual = (ROOT / "docs/man/vramwise-exporter.1.scd").read_text(encoding="utf-8")
        self.assertEqual(families - set(re.findall(r"\*([a-z_]+)\*", manual)), set())
        told = RULES.read_text(encoding="utf-8") + DASHBOARD.read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r"vramwise_([a-z_]+)\b(?!\()", told)) - families, set())

    def test_the_dashboard_has_what_grafana_asks_for(self):
        """As far as that can be said without Grafana's schemas, which tools/check_schemas.py takes."""
        board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
        self.assertLessEqual({"uid", "title", "schemaVersion", "time", "templating", "annotations"}, set(board))
        variables = {variable["name"]: variable for variable in board["templating"]["list"]}
        self.assertEqual(len(variables), len(board["templating"]["list"]))
        for panel in board["panels"]:
            self.assertLessEqual(NEEDED_OPTIONS[panel["type"]], set(panel.get("options", {})), panel["title"])
            if panel["type"] == "row":
                continue
            self.assertEqual(panel["datasource"], {"type": "prometheus", "uid": "${datasource}"})
            names = [target["refId"] for target in panel["targets"]]
            self.assertEqual(len(set(names)), len(names), panel["title"])
            for target in panel["targets"]:
                self.assertEqual(target["datasource"], panel["datasource"])
                used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval", "__range"}
                self.assertLessEqual(used, set(variables), panel["title"])
                self.assertTrue(target["range"] or target["instant"], panel["title"])
            for override in panel["fieldConfig"]["overrides"]:
                if override["matcher"]["id"] == "byFrameRefID":
                    self.assertIn(override["matcher"]["options"], names)
        for name, variable in variables.items():
            if variable["type"] == "query":
                self.assertEqual((variable["query"]["query"], variable["allValue"], variable["includeAll"]),
                                 (variable["definition"], ".*", True), name)

    def test_the_panels_of_the_dashboard_have_places_of_their_own(self):
        panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            place = panel["gridPos"]
            cells = {(place["x"] + x, place["y"] + y)
                     for x in range(place["w"]) for y in range(place["h"])}
            self.assertLessEqual(place["x"] + place["w"], 24)
            self.assertFalse(taken & cells, panel["title"])
            taken |= cells


class Scraping(FleetCase):
    def test_a_running_job_is_scraped_and_every_query_has_an_answer(self):
        exporter = self.exporter("127.0.0.1:0")
        job = self.run_job(RANK="3", SLURM_JOB_ID="77", WORLD_SIZE="8")
        job.tell("program=train.py", "allocator=pytorch", "device=0:NVIDIA H200", *counted(1)).leak()
        run = job.server
        prometheus = Prometheus(self, [f"127.0.0.1:{exporter.port}", f"127.0.0.1:{run.port}"])
        rules = prometheus.get("rules")["groups"][0]["rules"]
        self.assertGreater(len(rules), len(LATE_ALERTS))
        waiting = {**dashboard_queries(),
                   **{rule["name"]: rule["query"] for rule in rules if rule["name"] not in LATE_ALERTS}}
        self.assertGreater(len(waiting), 40)
        for name in LATE_ALERTS:
            prometheus.ask(next(rule["query"] for rule in rules if rule["name"] == name))
        self.assertEqual(len(written_queries()), 3)
        for query in written_queries():
            prometheus.ask(query)
        step = 40

        def is_answered() -> bool:
            nonlocal step
            step += 1
            job.tell(*counted(step), f"steps=1:{GIB + step * (1 << 20)}:0:{2 * GIB}")
            for name, query in list(waiting.items()):
                if any(is_number(sample["value"][1]) for sample in prometheus.ask(query)):
                    del waiting[name]
            return not waiting

        try:
            self.wait_until(is_answered, "data for every query")
        except AssertionError as reason:
            raise AssertionError(f"{reason}: {waiting}") from reason
        self.assert_the_series_are_those_of_a_scrape(prometheus, exporter)
        for series, label in dashboard_labels():
            if label in LABELS_OF_ALL_USERS:
                continue
            values = prometheus.get(f"label/{label}/values", **{"match[]": series})
            self.assertNotEqual(values, [], f"{series} {label}")
        self.assertFalse([line for line in prometheus.said if "rror on ingesting" in line])

    def assert_the_series_are_those_of_a_scrape(self, prometheus: Prometheus, exporter) -> None:
        expected = {(name, tuple(sorted(labels.items())))
                    for name, labels, _ in samples(exporter.scrape())}
        found = set()
        for metric in prometheus.get("series", **{"match[]": '{__name__=~"vramwise_.*"}'}):
            name = metric.pop("__name__")
            self.assertEqual(metric.pop("job"), "vramwise")
            if metric.pop("instance") == f"127.0.0.1:{exporter.port}":
                found.add((name, tuple(sorted(metric.items()))))
        self.assertEqual(found, expected)
        up = prometheus.ask('max_over_time(up{job="vramwise"}[5m])')
        self.assertEqual([sample["value"][1] for sample in up], ["1", "1"])


def is_number(value: str) -> bool:
    return value not in ("NaN", "+Inf", "-Inf")


if __name__ == "__main__":
    live_jobs.main()
