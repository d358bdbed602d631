#!/usr/bin/env python3
"""test_metrics.py PROGRAM LIVE_JOB [unittest arguments] - `vramwise exporter` and `vramwise run
--metrics`: what they tell of running jobs, whom they answer, and that the job notices nothing.

A method's name is the sentence that is true when it passes.
"""
import concurrent.futures
import contextlib
import fcntl
import http.client
import os
import re
import resource
import signal
import socket
import struct
import sys

import live_jobs
from live_jobs import GIB, FleetCase, Programs, samples

F_OFD_SETLK = 37


class Telling(FleetCase):
    def test_the_values_of_a_job_are_told_with_who_it_is(self):
        job = self.job(RANK="3", LOCAL_RANK="1", WORLD_SIZE="8", SLURM_JOB_ID="77")
        job.tell("program=train.py", "allocator=pytorch", "device=1:NVIDIA H200", f"live_bytes={GIB}",
                 "retries=4", "step_nanoseconds=1500000001", "loader_pins=0")
        found = samples(self.exporter().scrape())
        who = {"pid": str(job.process.pid), "rank": "3", "job_id": "77", "program": "train.py",
               "allocator": "pytorch"}
        device = {**who, "device": "1"}
        for sample in (("vramwise_live_bytes", device, str(GIB)),
                       ("vramwise_retries_total", device, "4"),
                       ("vramwise_step_seconds_total", device, "1.500000001"),
                       ("vramwise_loader_pins", device, "0"),
                       ("vramwise_device_info", {**device, "device_name": "NVIDIA H200"}, "1"),
                       ("vramwise_jobs", {"state": "running"}, "1")):
            self.assertIn(sample, found)
        (info,) = [labels for name, labels, _ in found if name == "vramwise_info"]
        self.assertEqual({**info, "version": ""},
                         {**who, "version": "", "local_rank": "1", "world_size": "8"})
        self.assertNotIn("vramwise_reserved_bytes", {name for name, _, _ in found})

    def test_promtool_has_nothing_to_say_whatever_a_job_calls_itself(self):
        names = (b'a "quoted" \\ one', b"{}=,#", b"\xff\xfe broken \xc3", b"\x1b[31mred\x7f\r", b"\xe2\x82\xac")
        for rank, name in enumerate(names):
            job = self.job(RANK=str(rank))
            job.tell(b"program=" + name, b"job=" + name, b"allocator=" + name, b"device=0:" + name,
                     f"live_bytes={GIB}", f"reserved_bytes={2 * GIB}", f"device_free_bytes={GIB}",
                     "driver_nanoseconds=5", "steps=40").leak()
        text = self.exporter().scrape()
        self.promtool("check", "metrics", input=text)
        self.assertFalse(re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text))
        programs = {labels["rank"]: labels["program"] for name, labels, _ in samples(text)
                    if name == "vramwise_live_bytes"}
        self.assertEqual(programs, {"0": r"a \"quoted\" \\ one", "1": "{}=,#",
                                    "2": "\ufffd\ufffd broken \ufffd", "3": "\ufffd[31mred\ufffd\ufffd",
                                    "4": "\u20ac"})

    def test_a_leak_is_told_with_the_steps_that_are_left(self):
        job = self.job()
        job.tell(f"live_bytes={GIB}", f"reserved_bytes={2 * GIB}", f"device_free_bytes={GIB}")
        job.leak(per_step=1 << 20)
        found = {name: value for name, _, value in samples(self.exporter().scrape())}
        self.assertEqual(found["vramwise_room_bytes"], str(2 * GIB))
        self.assertEqual(found["vramwise_leak_bytes_per_step"], str(1 << 20))
        self.assertEqual(found["vramwise_steps_until_full"], "2049")

    def test_a_machine_without_jobs_is_told_as_such(self):
        text = self.exporter().scrape()
        self.promtool("check", "metrics", input=text)
        self.assertIn(("vramwise_jobs", {"state": "running"}, "0"), samples(text))

    def test_a_job_that_is_killed_is_gone_and_its_page_with_it(self):
        job, other = self.job(), self.job()
        for one in job, other:
            one.tell("live_bytes=1")
        server = self.exporter()
        self.assertEqual(server.scrape().count("vramwise_live_bytes{"), 2)
        job.process.kill()
        job.process.wait()
        text = server.scrape()
        self.assertIn("\nvramwise_stale_pages 1\n", text)
        self.assertEqual(text.count("vramwise_live_bytes{"), 1)
        self.assertIn("\nvramwise_stale_pages 0\n", server.scrape())
        self.assertEqual(len(list(self.pages.iterdir())), 1)

    def test_a_page_of_another_version_is_counted_and_the_others_are_told(self):
        job = self.job().tell("live_bytes=1")
        (page,) = self.pages.iterdir()
        newer = self.pages / (page.name + "0")
        newer.write_bytes(page.read_bytes())
        with open(newer, "r+b") as file:
            fcntl.fcntl(file, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
            file.seek(8)
            file.write(struct.pack("=Q", 9999))
            file.flush()
            text = self.exporter().scrape()
        self.promtool("check", "metrics", input=text)
        self.assertIn('vramwise_jobs{state="running"} 1\n', text)
        self.assertIn('vramwise_jobs{state="other_version"} 1\n', text)
        self.assertIn(f'vramwise_live_bytes{{pid="{job.process.pid}"', text)

    def test_two_pages_of_one_number_are_told_apart(self):
        self.job().tell("live_bytes=1")
        (page,) = self.pages.iterdir()
        twin = self.pages / (page.name + "0")
        twin.write_bytes(page.read_bytes())
        with open(twin, "r+b") as file:
            fcntl.fcntl(file, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
            text = self.exporter().scrape()
        self.promtool("check", "metrics", input=text)
        labels = [labels for name, labels, _ in samples(text) if name == "vramwise_live_bytes"]
        self.assertEqual(len(labels), 2)
        self.assertEqual([one.get("page") for one in labels], [None, twin.name.rsplit("-", 1)[1]])

    def test_64_ranks_are_told_while_they_come_and_go(self):
        server = self.exporter()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            scrapes = [pool.submit(server.scrape) for _ in range(24)]
            jobs = [self.job(RANK=str(rank)) for rank in range(64)]
            for job in jobs:
                job.tell("live_bytes=1")
            for job in jobs[:8]:
                job.process.kill()
            for scrape in scrapes:
                samples(scrape.result())  # every line is whole
        for job in jobs[:8]:
            job.process.wait()
        ranks = {labels["rank"] for name, labels, _ in samples(server.scrape())
                 if name == "vramwise_live_bytes"}
        self.assertEqual(ranks, {str(rank) for rank in range(8, 64)})


class Serving(FleetCase):
    def test_there_are_metrics_a_front_page_and_a_sign_of_health(self):
        server = self.exporter()
        status, headers, body = server.ask()
        self.assertEqual((status, headers["Content-Type"]),
                         (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertTrue(body.startswith(b"# HELP vramwise_jobs "))
        status, headers, body = server.ask("/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn(b'<a href="metrics">', body)
        self.assertEqual(server.ask("/-/healthy")[0], 200)
        for path in "/metrics/", "/metricsx", "//metrics", "/data", "/favicon.ico", "/../metrics":
            with self.subTest(path):
                self.assertEqual(server.ask(path)[0], 404)
        self.assertEqual(server.ask("/metrics?x=1")[0], 200)

    def test_closed_streams_are_no_doors(self):
        """What is written to them ends nobody, and reaches no client."""
        for streams in "2>&-", "<&- 2>&-":
            with self.subTest(streams):
                server = self.exporter(before=["sh", "-c", f'exec "$@" {streams}', "sh"])
                for _ in range(3):
                    self.assertEqual(server.ask("/-/healthy")[0], 200)
                self.assertEqual(server.end(), (0, ""))

    def test_a_client_can_ask_again_on_its_connection(self):
        server = self.exporter()
        connection = http.client.HTTPConnection(server.host, server.port, timeout=live_jobs.LIMIT_SECONDS)
        self.addCleanup(connection.close)
        connection.connect()
        place = connection.sock.getsockname()
        for method in "GET", "HEAD", "GET":
            connection.request(method, "/metrics")
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.getheader("Connection", "")), (200, ""))
            answer.read()
            self.assertEqual(connection.sock.getsockname(), place)
        connection.request("GET", "/metrics", body=b"x" * 100)  # nobody asked for that
        self.assertRaises(http.client.RemoteDisconnected, connection.getresponse)
        self.assertEqual(server.ask()[0], 200)

    def test_without_the_token_there_is_no_answer(self):
        token, file = "an-example-token-1234", self.folder / "token"
        file.write_text(token + "\n")
        server = self.exporter("0", "--token-file", str(file))
        for wrong in "", "x", token[:-1], token + "4", token.upper(), 2 * token:
            status, headers, body = server.ask(token=wrong)
            self.assertEqual((status, headers["WWW-Authenticate"], body), (401, "Bearer", b"Not without the token.\n"))
        self.assertEqual(server.ask("/", token="x")[0], 401)
        self.assertEqual(server.ask("/-/healthy")[0], 200)
        status, _, body = server.ask(token=token)
        self.assertEqual(status, 200)
        self.assertIn(b"vramwise_jobs{", body)
        self.assertEqual(server.ask(token=token, host="elsewhere.example")[0], 403)

    def test_nothing_can_be_changed_and_a_head_has_no_body(self):
        server = self.exporter()
        for method in "POST", "PUT", "DELETE", "OPTIONS":
            with self.subTest(method):
                status, headers, _ = server.ask(method=method, body=b"x" if method != "OPTIONS" else None)
                self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
        status, headers, body = server.ask(method="HEAD")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 1000)

    def test_on_loopback_other_names_are_refused(self):
        for listen in "0", "127.0.0.1:0":
            server = self.exporter(listen)
            for host, status in (("attacker.example", 403), (f"attacker.example:{server.port}", 403),
                                 (f"127.0.0.1:{server.port}", 200)):
                with self.subTest(f"{listen} {host}"):
                    self.assertEqual(server.ask(host=host)[0], status)

    def test_at_an_address_that_others_reach_any_name_is_good_and_that_is_said(self):
        server = self.exporter("0.0.0.0:0")
        server.host = "127.0.0.1"
        self.assertEqual(server.ask(host=f"node17.cluster.example:{server.port}")[0], 200)
        status, said = server.end()
        self.assertEqual(status, 0)
        self.assertRegex(said, r"\Avramwise exporter: 0\.0\.0\.0 can be reached from other machines: .*\n"
                               r"vramwise exporter: serving until Ctrl-C\n\Z")

    def test_one_who_does_not_read_does_not_stop_the_others(self):
        self.job().tell("live_bytes=1")
        server = self.exporter()
        with socket.create_connection((server.host, server.port)) as silent, \
                socket.create_connection((server.host, server.port)) as slow:
            silent.sendall(b"GET /met")
            slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                texts = list(pool.map(lambda _: server.scrape(), range(32)))
        self.assertTrue(all("vramwise_live_bytes{" in text for text in texts))

    def test_a_thousand_slow_clients_do_not_keep_one_who_asks_from_an_answer(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2048, hard)), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        server = self.exporter("127.0.0.1:0")  # one door, one address: the worst there is
        slow = []
        for number in range(1000):
            slow.append(socket.create_connection((server.host, server.port), timeout=live_jobs.LIMIT_SECONDS))
            self.addCleanup(slow[-1].close)
            slow[-1].sendall(b"GET /met"[:number % 9])
            if number % 100 == 99:
                self.assertIn("vramwise_jobs", server.scrape())
                for client in slow:
                    with contextlib.suppress(OSError):  # it was sent away
                        client.send(b"r", socket.MSG_NOSIGNAL)
        self.assertIn("vramwise_jobs", server.scrape())

    def test_signals_end_it_well(self):
        for which in signal.SIGTERM, signal.SIGINT:
            with self.subTest(which):
                server = self.exporter()
                with socket.create_connection((server.host, server.port)):  # and stays open
                    self.assertEqual(server.ask()[0], 200)
                    self.assertEqual(server.end(which), (0, "vramwise exporter: serving until Ctrl-C\n"))

    def test_without_the_folder_it_says_so_and_goes_on(self):
        server = self.exporter()
        self.pages.rename(self.folder / "elsewhere")
        status, headers, body = server.ask()
        self.assertEqual((status, headers["Content-Type"]), (503, "text/plain; charset=utf-8"))
        self.assertIn(b"cannot read the folder", body)
        (self.folder / "elsewhere").rename(self.pages)
        self.assertEqual(server.ask()[0], 200)

    def test_a_port_in_use_is_refused(self):
        server = self.exporter("127.0.0.1:0")
        result = self.vramwise("exporter", "--listen", f"127.0.0.1:{server.port}")
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertEqual(result.stderr, f"vramwise exporter: 127.0.0.1:{server.port} is in use by "
                                        "another program; --listen 0 finds a free port\n")

    def test_an_address_of_another_machine_cannot_be_had(self):
        result = self.vramwise("exporter", "--listen", "192.0.2.1:0")
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertTrue(result.stderr.startswith("vramwise exporter: cannot serve at 192.0.2.1:0: "))


class Running(FleetCase):
    def test_a_run_tells_of_its_own_processes_alone(self):
        stranger = self.job().tell("live_bytes=1")
        job = self.run_job(RANK="5").tell("live_bytes=2")
        found = samples(job.server.scrape())
        self.assertEqual([(labels["rank"], value) for name, labels, value in found
                          if name == "vramwise_live_bytes"], [("5", "2")])
        self.assertIn(("vramwise_jobs", {"state": "running"}, "1"), found)
        self.assertEqual(self.exporter().scrape().count("vramwise_live_bytes{"), 2)
        self.assertEqual((job.end(), stranger.end()), (0, 0))

    def test_a_folder_with_a_long_name_makes_no_difference(self):
        runtime = self.folder / ("x" * 20)
        runtime.mkdir()
        job = self.run_job(XDG_RUNTIME_DIR=str(runtime)).tell("live_bytes=2")
        self.assertIn("vramwise_live_bytes{", job.server.scrape())

    def test_the_exit_status_is_the_commands(self):
        for code in 0, 7:
            result = self.vramwise("run", "--metrics", "0", "--", "sh", "-c", f"exit {code}")
            self.assertEqual(result.returncode, code)
            self.assertRegex(result.stderr, r"\Avramwise: metrics are at http://127\.0\.0\.1:\d+/metrics\n\Z")
        result = self.vramwise("run", "--metrics", "0", "--", "sh", "-c", "kill -9 $$")
        self.assertEqual(result.returncode, 128 + signal.SIGKILL)

    def test_signals_are_passed_on_once_and_the_metrics_stay_until_the_end(self):
        script = ("import signal, sys, time\n"
                  "def note(*_): print('got it', flush=True)\n"
                  "signal.signal(signal.SIGTERM, note)\n"
                  "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(9))\n"
                  "print('ready', flush=True)\n"
                  "while True: time.sleep(100)\n")
        job = live_jobs.Job(self, [Programs.vramwise, "run", "--metrics", "0", "--",
                                   sys.executable, "-c", script])
        server = live_jobs.Server(job.process.stderr.readline().decode().split()[-1])
        self.assertEqual(job.process.stdout.readline(), b"ready\n")
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.process.stdout.readline(), b"got it\n")
        with socket.create_connection((server.host, server.port)):  # and stays open
            self.assertEqual(server.ask()[0], 200)
            job.process.send_signal(signal.SIGUSR1)
            self.assertEqual(job.process.stdout.read(), b"")
            self.assertEqual(job.process.wait(live_jobs.LIMIT_SECONDS), 9)
        with self.assertRaises(ConnectionRefusedError):
            server.ask()

    def test_nothing_of_the_server_is_open_in_the_job(self):
        result = self.vramwise("run", "--metrics", "0", "--", "sh", "-c", "ls -l /proc/self/fd")
        self.assertEqual(result.returncode, 0)
        self.assertNotIn("socket:", result.stdout)

    def test_a_port_in_use_is_refused_before_the_job_is_started(self):
        server = self.exporter("127.0.0.1:0")
        result = self.vramwise("run", "--metrics", f"127.0.0.1:{server.port}", "--", "echo", "started")
        self.assertEqual((result.returncode, result.stdout), (125, ""))
        self.assertEqual(result.stderr, f"vramwise run: 127.0.0.1:{server.port} is in use by another "
                                        "program; --metrics 0 finds a free port\n")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["pages"])

    def test_a_wrong_address_is_wrong_usage(self):
        for command in (("run", "--metrics", "nowhere"), ("run", "--metrics", ":9400"),
                        ("exporter", "--listen", "example.org:80")):
            result = self.vramwise(*command, *(("--", "echo") if command[0] == "run" else ()))
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(f"{command[1]}: expected a port up to 65535, such as 8080, or an address and a port",
                          result.stderr)

    def test_a_job_that_is_killed_while_it_is_asked_about_ends_as_it_would_have(self):
        job = self.run_job().tell("live_bytes=2")
        pid = int(samples(job.server.scrape())[-1][1]["pid"])
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            scrapes = [pool.submit(self.try_to_scrape, job.server) for _ in range(40)]
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(job.process.wait(live_jobs.LIMIT_SECONDS), 128 + signal.SIGKILL)
            for scrape in scrapes:
                samples(scrape.result())

    def test_a_failure_is_reported_while_metrics_are_served(self):
        support = live_jobs.ROOT / "tests/support/fake_torch_watch"
        recording = live_jobs.ROOT / "tests/data/recordings/doctor/oom_too_large.pickle.xz"
        script = self.folder / "train.py"
        script.write_text("import torch\ntorch._C.allocate(7 << 30)\ntorch._C.allocate(2 << 30)\n",
                          encoding="utf-8")
        self.environment.update({"PYTHONPATH": str(support), "FAKE_TORCH_SNAPSHOT": str(recording)})
        result = self.vramwise("run", "--metrics", "0", "--", sys.executable, str(script),
                               cwd=self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("Verdict: ", result.stderr)

    @staticmethod
    def try_to_scrape(server) -> str:
        try:
            return server.scrape()
        except (OSError, http.client.HTTPException):  # it has ended
            return ""


if __name__ == "__main__":
    live_jobs.main()
