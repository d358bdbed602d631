#!/usr/bin/env python3
"""test_view.py PROGRAM [unittest arguments] - `vramwise view`: pages, where they go, and the server.

What a page shows is tested elsewhere; here it is bytes that must arrive whole, under the right name,
and reach nobody else. A method's name is the sentence that is true when it passes. Nothing depends on
time: tests wait for what must happen, and the limit is for what never does.
"""
import base64
import concurrent.futures
import http.client
import os
import pathlib
import pickle
import pty
import random
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDINGS = ROOT / "tests/data/recordings"
SMALL = RECORDINGS / "streams.native.pickle.xz"
OTHER = RECORDINGS / "graphs.native.pickle.xz"
PROGRAM = ""
LIMIT_SECONDS = 100

MARKER = b'<meta name="generator" content="vramwise'
MAGIC = b"VWVIEW\0\1"
DATA = re.compile(rb'<script type="text/plain" id="vramwise-data">([^<]*)</script>')


def data_of(page: bytes) -> bytes:
    """The container in a page; b"" where there is none."""
    found = DATA.findall(page)
    assert len(found) == 1, f"{len(found)} places for data"
    return base64.b64decode(found[0], validate=True)


class ViewCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="view-test-")
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        hidden = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
        self.environment = {name: value for name, value in os.environ.items() if name not in hidden}
        self.environment["LC_ALL"] = "C"

    def recording(self, name: str = "run.pickle.xz", source: pathlib.Path = SMALL) -> pathlib.Path:
        path = self.here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)
        return path

    def view(self, *arguments, **more) -> subprocess.CompletedProcess:
        settings = {"cwd": self.here, "env": self.environment, "stdin": subprocess.DEVNULL,
                    "capture_output": True, "timeout": LIMIT_SECONDS, "check": False, **more}
        if "input" in settings:
            del settings["stdin"]
        command = [PROGRAM, "view", "--no-what-if", *map(str, arguments)]
        return subprocess.run(command, **settings)

    def assert_page(self, path: pathlib.Path) -> bytes:
        """A whole page with data; returns the data."""
        page = path.read_bytes()
        self.assertTrue(MARKER in page[:32768], page[:200])
        data = data_of(page)
        self.assertTrue(data.startswith(MAGIC))
        return data

    def assert_done(self, result: subprocess.CompletedProcess, name: str) -> None:
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, b"")
        self.assertRegex(result.stdout.decode(), rf"\A{re.escape(name)}  [\d.]+ [KMG]iB\n\Z")

    def assert_could_not(self, result: subprocess.CompletedProcess, words: str) -> None:
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(result.stdout, b"")
        self.assertRegex(result.stderr.decode(), rf"\Avramwise view: .*{words}.*\n\Z")

    def names(self) -> list:
        return sorted(path.name for path in self.here.iterdir())


class Pages(ViewCase):
    def test_a_page_goes_beside_its_recording(self):
        self.recording("deep/run.pickle.xz")
        self.assert_done(self.view("deep/run.pickle.xz"), "deep/run.pickle.xz.html")
        self.assert_page(self.here / "deep/run.pickle.xz.html")
        self.assertEqual(sorted(os.listdir(self.here / "deep")),
                         ["run.pickle.xz", "run.pickle.xz.html"])

    def test_two_recordings_make_one_page_beside_the_first(self):
        self.recording("one/a.xz")
        self.recording("two/b.xz", OTHER)
        self.assert_done(self.view("one/a.xz", "two/b.xz"), "one/a.xz.vs.b.xz.html")
        data = self.assert_page(self.here / "one/a.xz.vs.b.xz.html")
        self.assertTrue(b"one/a.xz" in data and b"two/b.xz" in data)

    def test_standard_input_goes_into_the_current_folder(self):
        self.assert_done(self.view("-", input=SMALL.read_bytes()), "vramwise-view.html")
        self.assert_page(self.here / "vramwise-view.html")

    def test_standard_input_may_be_one_of_two(self):
        self.recording("a.xz")
        small = SMALL.read_bytes()
        self.assert_done(self.view("a.xz", "-", input=small), "a.xz.vs.stdin.html")
        self.assert_done(self.view("-", "a.xz", input=small), "stdin.vs.a.xz.html")

    def test_a_dash_is_standard_output_and_nothing_else_is_written(self):
        self.recording()
        result = self.view("run.pickle.xz", "-o", "-")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertTrue(data_of(result.stdout).startswith(MAGIC))
        self.assertEqual(self.names(), ["run.pickle.xz"])

    def test_a_page_is_the_same_wherever_it_goes(self):
        self.recording()
        self.view("run.pickle.xz")
        self.view("run.pickle.xz", "--output", "named.html")
        piped = self.view("run.pickle.xz", "-o", "-").stdout
        self.assertTrue((self.here / "run.pickle.xz.html").read_bytes() == piped)
        self.assertTrue((self.here / "named.html").read_bytes() == piped)

    def test_a_page_of_an_earlier_time_is_replaced_and_keeps_its_permissions(self):
        self.recording()
        page = self.here / "run.pickle.xz.html"
        page.write_bytes(b"<!doctype html><head>" + MARKER + b' 0.0.1">' + b"old" * 9999)
        page.chmod(0o640)
        self.assert_done(self.view("run.pickle.xz"), page.name)
        self.assert_page(page)
        self.assertEqual(stat.S_IMODE(page.stat().st_mode), 0o640)
        self.assertEqual(self.names(), ["run.pickle.xz", page.name])

    def test_a_new_page_has_the_permissions_of_any_new_file(self):
        self.recording()
        self.view("run.pickle.xz", preexec_fn=lambda: os.umask(0o027))
        page = self.here / "run.pickle.xz.html"
        self.assertEqual(stat.S_IMODE(page.stat().st_mode), 0o640)

    def test_any_other_file_of_that_name_is_left_alone_unless_it_is_named(self):
        self.recording()
        page = self.here / "run.pickle.xz.html"
        page.write_bytes(b"<html>my own notes</html>")
        self.assert_could_not(self.view("run.pickle.xz"), "not a page that vramwise wrote; choose another name with -o")
        self.assertEqual(page.read_bytes(), b"<html>my own notes</html>")
        self.assert_done(self.view("run.pickle.xz", "-o", page.name), page.name)
        self.assert_page(page)

    def test_what_a_link_leads_to_is_replaced_and_not_the_link(self):
        self.recording()
        (self.here / "kept").mkdir()
        (self.here / "kept/page.html").write_bytes(b"old")
        (self.here / "link.html").symlink_to("kept/page.html")
        self.assert_done(self.view("run.pickle.xz", "-o", "link.html"), "link.html")
        self.assertTrue((self.here / "link.html").is_symlink())
        self.assert_page(self.here / "kept/page.html")

    def test_a_link_at_a_name_that_nobody_chose_is_replaced_and_not_followed(self):
        self.recording()
        other, page = self.here / "other.html", self.here / "run.pickle.xz.html"
        other.write_bytes(b"<!doctype html><head>" + MARKER + b' 0.0.1">')
        other.chmod(0o666)
        before = other.read_bytes()
        page.symlink_to(other)
        self.assert_done(self.view("run.pickle.xz", preexec_fn=lambda: os.umask(0o077)), page.name)
        self.assertFalse(page.is_symlink())
        self.assert_page(page)
        self.assertEqual(stat.S_IMODE(page.stat().st_mode), 0o600)
        self.assertEqual(other.read_bytes(), before)

    def test_a_pipe_with_a_name_is_written_to(self):
        self.recording()
        os.mkfifo(self.here / "pipe")
        parts = []
        reader = threading.Thread(
            target=lambda: parts.append((self.here / "pipe").read_bytes()), daemon=True)
        reader.start()
        self.assert_done(self.view("run.pickle.xz", "-o", "pipe"), "pipe")
        reader.join(LIMIT_SECONDS)
        self.assertTrue(data_of(parts[0]).startswith(MAGIC))
        self.assertTrue((self.here / "pipe").is_fifo())

    def test_a_name_that_begins_with_a_dash_is_a_name_behind_two(self):
        self.recording("-run.xz")
        self.assert_done(self.view("--", "-run.xz"), "-run.xz.html")
        self.assert_page(self.here / "-run.xz.html")

    def test_replays_are_in_the_page_unless_they_are_declined(self):
        self.recording()
        without = self.view("run.pickle.xz", "-o", "-").stdout
        command = [PROGRAM, "view", "run.pickle.xz", "-o", "-"]
        whole = subprocess.run(command, cwd=self.here, env=self.environment, check=True,
                               stdout=subprocess.PIPE, timeout=LIMIT_SECONDS).stdout
        self.assertTrue(b"what_if.0.bytes" in data_of(whole))
        self.assertFalse(b"what_if.0.bytes" in data_of(without))


class GoingWrong(ViewCase):
    def assert_refused(self, words: str, *arguments) -> None:
        result = self.view(*arguments)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, b"")
        self.assertRegex(result.stderr.decode(),
                         rf"\Avramwise view: {words}.*\nTry 'vramwise help view'\.\n\Z")

    def test_command_lines_that_make_no_sense_are_wrong_usage(self):
        self.recording("a.xz")
        self.assert_refused("expected one file or two, not 0")
        self.assert_refused("expected one file or two, not 3", "a.xz", "a.xz", "a.xz")
        self.assert_refused("standard input can be one of the files, not both", "-", "-")
        self.assert_refused("the name of the file is empty", "")
        self.assert_refused("the name of the file is empty", "a.xz", "")
        self.assert_refused("-o: the name of the page is empty", "a.xz", "-o", "")
        self.assert_refused("option '-o' needs a value", "a.xz", "-o")
        self.assert_refused("expected -o or --serve, not both", "a.xz", "-o", "x", "--serve")
        self.assert_refused("unknown option '--outptu'; did you mean '--output'", "a.xz", "--outptu")
        self.assert_refused("unknown version|.*9\\.99", "a.xz", "--torch", "9.99")
        for address in "", "65536", "host:80", "127.0.0.1", "::1:80", "[::1]":
            self.assert_refused("--serve: expected a port up to 65535, such as 8080, or an address",
                                "a.xz", f"--serve={address}")
        self.assertEqual(self.names(), ["a.xz"])

    def test_the_recording_is_never_written_over(self):
        path = self.recording("run.pickle.xz")
        (self.here / "link.xz").symlink_to("run.pickle.xz")
        os.link(path, self.here / "same.xz")
        before = path.read_bytes()
        for name in "run.pickle.xz", "./run.pickle.xz", "link.xz", "same.xz":
            self.assert_refused(".* would overwrite the recording", "run.pickle.xz", "-o", name)
        other = self.recording("other.xz", OTHER)
        self.assert_refused(".* would overwrite the recording", "run.pickle.xz", "other.xz", "-o", "other.xz")
        self.assertEqual(path.read_bytes(), before)
        self.assertEqual(other.read_bytes(), OTHER.read_bytes())

    def test_the_recording_behind_standard_input_is_not_written_over_either(self):
        path = self.recording("run.pickle.xz")
        with path.open("rb") as stdin:
            result = self.view("-", "-o", "run.pickle.xz", stdin=stdin)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(b"would overwrite the recording", result.stderr)
        self.assertEqual(path.read_bytes(), SMALL.read_bytes())

    def test_no_draft_is_left_where_files_may_not_grow(self):
        self.recording()
        most = (4096, 4096)
        result = self.view("run.pickle.xz",
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, most))
        self.assert_could_not(result, "run.pickle.xz.html: File too large")
        self.assertEqual(self.names(), ["run.pickle.xz"])

    def stop_with_draft(self, process) -> bool:
        """Stops it while there is a draft of the page; False: it was quicker."""
        usual = {"run.pickle.xz", "run.pickle.xz.html"}
        while process.poll() is None:
            if not set(self.names()) - usual:
                continue
            process.send_signal(signal.SIGSTOP)
            if process.returncode is not None:  # it had ended, and is waited for already
                return False
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            return bool(set(self.names()) - usual)
        return False

    def test_a_signal_leaves_the_whole_page_or_nothing(self):
        self.recording()
        command = [PROGRAM, "view", "--no-what-if", "run.pickle.xz"]
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            for _ in range(20):  # until it was stopped in the middle of writing
                with subprocess.Popen(command, cwd=self.here, env=self.environment,
                                      stdout=subprocess.DEVNULL) as process:
                    has_draft = self.stop_with_draft(process)
                    process.send_signal(number)
                    process.send_signal(signal.SIGCONT)
                    self.assertIn(process.wait(LIMIT_SECONDS), (0, -number))
                self.assertEqual(set(self.names()) - {"run.pickle.xz.html"}, {"run.pickle.xz"})
                if (self.here / "run.pickle.xz.html").exists():
                    self.assert_page(self.here / "run.pickle.xz.html")
                    (self.here / "run.pickle.xz.html").unlink()
                if has_draft:
                    break

    def test_a_file_that_is_not_there_or_no_recording_makes_no_page(self):
        (self.here / "text").write_text("hello")
        self.assert_could_not(self.view("nowhere.pickle"), "nowhere.pickle: No such file")
        self.assert_could_not(self.view("text"), "text: ")
        self.assertEqual(self.names(), ["text"])

    def test_a_recording_that_is_cut_off_makes_no_page(self):
        path = self.recording()
        whole = path.read_bytes()
        for length in 0, 10, len(whole) // 2, len(whole) - 1:
            path.write_bytes(whole[:length])
            self.assert_could_not(self.view("run.pickle.xz"), "run.pickle.xz: ")
            self.assertEqual(self.names(), ["run.pickle.xz"])

    def test_the_second_file_counts_as_much_as_the_first(self):
        self.recording()
        self.assert_could_not(self.view("run.pickle.xz", "nowhere"), "nowhere: No such file")
        self.assertEqual(self.names(), ["run.pickle.xz"])

    def test_places_where_no_page_can_be_are_named(self):
        self.recording()
        (self.here / "folder").mkdir()
        view = self.view
        self.assert_could_not(view("run.pickle.xz", "-o", "folder"), "folder: expected a file")
        self.assert_could_not(view("run.pickle.xz", "-o", "no/page"), "no/page: No such file")
        self.assert_could_not(view("run.pickle.xz", "-o", "run.pickle.xz/page"), "Not a directory")
        self.assert_could_not(view("run.pickle.xz", "-o", "/proc/page.html"), "/proc/page.html: ")
        self.assert_could_not(view("run.pickle.xz", "-o", "/dev/full"), "/dev/full: No space left")
        self.assert_could_not(view("run.pickle.xz", "-o", "x" * 300), "File name too long")

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_a_folder_that_may_not_be_written_to_is_named(self):
        self.recording("closed/run.xz")
        (self.here / "closed").chmod(0o500)
        self.addCleanup((self.here / "closed").chmod, 0o700)
        self.assert_could_not(self.view("closed/run.xz"), "closed/run.xz.html: Permission denied")

    def test_a_full_disk_behind_standard_output_is_a_failure(self):
        self.recording()
        with open("/dev/full", "wb") as full:
            result = self.view("run.pickle.xz", "-o", "-", capture_output=False, stdout=full,
                               stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 3)
        self.assertIn(b"cannot write to standard output", result.stderr)

    def test_names_cannot_steer_a_terminal(self):
        self.recording("red\x1b[31m.xz")
        result = self.view("red\x1b[31m.xz")
        self.assertEqual(result.returncode, 0)
        self.assertNotIn(b"\x1b", result.stdout)
        self.assertTrue((self.here / "red\x1b[31m.xz.html").exists())
        for text in "no recording", "":
            (self.here / "red\x1b[31m\n").write_text(text)
            result = self.view("red\x1b[31m\n")
            self.assertEqual(result.returncode, 3)
            self.assertTrue(result.stderr.startswith(b"vramwise view: red?[31m : "), result.stderr)
        result = self.view("red\x1b[31m.xz", "-o", "red\x1b[31m.xz")
        self.assertEqual(result.returncode, 2)
        self.assertNotIn(b"\x1b", result.stderr)


class Server:
    """One `vramwise view --serve`, from the line that it prints to its end."""

    def __init__(self, case: ViewCase, *arguments, **more) -> None:
        command = [PROGRAM, "view", "--no-what-if", "--serve", *map(str, arguments)]
        self.process = subprocess.Popen(command, cwd=case.here, env=case.environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, **more)
        case.addCleanup(self.end)
        line = self.process.stdout.readline().decode()
        found = re.fullmatch(r"http://(.*):(\d+)/([0-9a-f]{32})/\n", line)
        if found is None:
            case.fail(f"no address: {line!r} {self.process.stderr.read()!r}")
        self.host, self.port, self.token = found[1], int(found[2]), found[3]

    def ask(self, path: str, method: str = "GET", host=None, address=None, body=None):
        """(status, headers, body) of one request."""
        connection = http.client.HTTPConnection(address or self.host.strip("[]"), self.port,
                                                timeout=LIMIT_SECONDS)
        try:
            connection.putrequest(method, path, skip_host=True)
            if host != "":
                connection.putheader("Host", host or f"{self.host}:{self.port}")
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, name: str, **more):
        return self.ask(f"/{self.token}/{name}", **more)

    def end(self, which=signal.SIGTERM) -> tuple:
        """(exit status, what was said on standard error)."""
        if self.process.stdout.closed:
            return None
        self.process.send_signal(which)
        _, said = self.process.communicate(timeout=LIMIT_SECONDS)
        return self.process.returncode, said.decode()


class Serving(ViewCase):
    def test_the_page_and_its_data_are_those_of_the_file(self):
        self.recording()
        page = self.view("run.pickle.xz", "-o", "-").stdout
        server = Server(self, "run.pickle.xz")
        status, headers, bare = server.get("")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertEqual(data_of(bare), b"")
        status, headers, data = server.get("data")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/octet-stream"))
        self.assertTrue(data == data_of(page))
        empty = b'<script type="text/plain" id="vramwise-data"></script>'
        self.assertTrue(bare == DATA.sub(empty, page))
        self.assertEqual(self.names(), ["run.pickle.xz"])

    def test_answers_are_neither_kept_nor_framed_nor_guessed_at(self):
        self.recording()
        server = Server(self, "run.pickle.xz")
        answers = [server.get(""), server.get("data"), server.get("nothing"), server.ask("/"),
                   server.get("", host="attacker.example"), server.get("", method="POST")]
        for _, headers, _ in answers:
            self.assertEqual(headers["Cache-Control"], "no-store")
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["X-Frame-Options"], "DENY")
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")
            self.assertNotIn("Access-Control-Allow-Origin", headers)

    def test_nothing_is_there_without_the_token(self):
        self.recording()
        server = Server(self, "run.pickle.xz")
        token = server.token
        nearly = token[:-1] + ("0" if token[-1] != "0" else "1")
        for path in ("/", "/data", "/favicon.ico", f"/{token}", f"/{token}x/", f"/{token}/data/",
                     f"/{token}/../{token}", f"/{token}/run.pickle.xz", f"//{token}/", f"/{nearly}/",
                     f"/{token[:-1]}/", f"/{token.upper()}A/data", "/" + "0" * 32 + "/data"):
            with self.subTest(path):
                status, _, body = server.ask(path)
                self.assertEqual(status, 404)
                self.assertNotIn(token.encode(), body)

    def test_each_server_has_a_token_of_its_own(self):
        self.recording()
        self.assertNotEqual(Server(self, "run.pickle.xz").token, Server(self, "run.pickle.xz").token)

    def test_requests_under_another_name_are_refused(self):
        self.recording()
        server = Server(self, "run.pickle.xz")
        port = server.port
        for host in ("attacker.example", f"attacker.example:{port}", f"127.0.0.1.evil.example:{port}",
                     f"192.168.0.1:{port}", ""):
            with self.subTest(host):
                status, _, body = server.get("data", host=host)
                self.assertIn(status, (403,) if host else (400, 403))  # HTTP itself wants one
                self.assertLess(len(body), 1000)
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "localhost:1"):
            with self.subTest(host):
                self.assertEqual(server.get("data", host=host)[0], 200)

    def test_nothing_can_be_changed(self):
        self.recording()
        server = Server(self, "run.pickle.xz")
        for method in "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE":
            with self.subTest(method):
                body = b"x" * 10 if method in ("POST", "PUT", "PATCH") else None
                status, headers, _ = server.get("", method=method, body=body)
                self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
        self.assertEqual(server.get("")[0], 200)

    def test_a_head_is_the_answer_without_its_body(self):
        self.recording()
        server = Server(self, "run.pickle.xz")
        for name in "", "data":
            _, whole, body = server.get(name)
            status, head, nothing = server.get(name, method="HEAD")
            self.assertEqual((status, nothing), (200, b""))
            self.assertEqual(int(head["Content-Length"]), len(body))
            self.assertEqual(head["Content-Type"], whole["Content-Type"])

    def test_many_can_ask_at_once(self):
        self.recording()
        server = Server(self, "run.pickle.xz")
        _, _, data = server.get("data")
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: server.get("data"), range(64)))
        self.assertTrue(all(status == 200 and body == data for status, _, body in answers))

    def test_one_who_does_not_read_does_not_stop_the_others(self):
        self.recording()
        server = Server(self, "run.pickle.xz")
        with socket.create_connection(("127.0.0.1", server.port)) as silent, \
                socket.create_connection(("127.0.0.1", server.port)) as slow:
            request = f"GET /{server.token}/data HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            silent.sendall(request[:20].encode())
            slow.sendall(request.encode())
            self.assertEqual(server.get("data")[0], 200)

    def test_readers_of_large_answers_that_do_not_read_keep_nobody_from_an_answer(self):
        numbers = random.Random(1)
        frames = [{"name": f"{numbers.getrandbits(3600):0900x}", "filename": "a.py", "line": 1} for _ in range(9000)]
        trace = [{"action": "alloc", "addr": 512 * i, "size": 512, "stream": 0, "frames": [frame]}
                 for i, frame in enumerate(frames, 1)]
        (self.here / "large.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}))
        server = Server(self, "large.pickle")  # names that do not compress: its data is more than sockets hold
        request = f"GET /{server.token}/data HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        for number in range(300):  # more than the server has places
            slow = socket.socket()
            self.addCleanup(slow.close)
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            slow.settimeout(LIMIT_SECONDS)
            slow.connect(("127.0.0.1", server.port))
            slow.sendall(request)
            self.assertEqual(slow.recv(5), b"HTTP/")  # it is being answered
            if number % 50 == 49:
                self.assertEqual(server.get("")[0], 200)

    def test_signals_end_it_well(self):
        self.recording()
        for which in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            with self.subTest(which):
                server = Server(self, "run.pickle.xz")
                with socket.create_connection(("127.0.0.1", server.port)):  # and stays open
                    self.assertEqual(server.get("")[0], 200)
                    status, said = server.end(which)
                self.assertEqual((status, said), (0, "vramwise view: serving until Ctrl-C\n"))

    def test_a_signal_that_was_ignored_stays_ignored(self):
        self.recording()
        server = Server(self, "run.pickle.xz",
                        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        server.process.send_signal(signal.SIGHUP)
        self.assertEqual(server.get("")[0], 200)
        self.assertEqual(server.end()[0], 0)

    def test_a_wrong_recording_is_served_by_nobody(self):
        result = self.view("nowhere.pickle", "--serve")
        self.assert_could_not(result, "nowhere.pickle: No such file")


def listen(family: int, address: str) -> socket.socket:
    """A listening socket at a port of its own, which nobody has at another address of localhost
    either; SkipTest where there is no such address."""
    while True:
        door = listen_anywhere(family, address)
        if family == socket.AF_INET or is_free(door.getsockname()[1]):
            return door
        door.close()


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as door:
        return door.connect_ex(("127.0.0.1", port)) != 0


def listen_anywhere(family: int, address: str) -> socket.socket:
    try:
        door = socket.socket(family, socket.SOCK_STREAM)
    except OSError as reason:
        raise unittest.SkipTest(str(reason)) from reason
    try:
        door.bind((address, 0))
        door.listen()
    except OSError as reason:
        door.close()
        raise unittest.SkipTest(str(reason)) from reason
    return door


class Addresses(ViewCase):
    def test_both_addresses_of_localhost_are_served(self):
        listen(socket.AF_INET6, "::1").close()
        self.recording()
        server = Server(self, "run.pickle.xz")
        self.assertEqual(server.host, "127.0.0.1")
        for address in "127.0.0.1", "::1":
            self.assertEqual(server.get("data", address=address)[0], 200)

    def test_one_address_that_is_named_is_served_alone(self):
        listen(socket.AF_INET6, "::1").close()
        self.recording()
        server = Server(self, "[::1]:0", "run.pickle.xz")
        self.assertEqual(server.host, "[::1]")
        self.assertEqual(server.get("data")[0], 200)
        try:
            status, _, _ = server.get("data", address="127.0.0.1")
        except (OSError, http.client.HTTPException):
            status = None
        self.assertNotEqual(status, 200)  # nobody is there, or somebody else

    def test_an_address_is_the_word_after_serve_and_a_file_is_not(self):
        self.recording()
        for arguments in ("127.0.0.1:0", "run.pickle.xz"), ("run.pickle.xz",), ("0", "run.pickle.xz"):
            with self.subTest(arguments):
                self.assertEqual(Server(self, *arguments).get("")[0], 200)

    def assert_in_use(self, door: socket.socket, shown: str) -> None:
        self.recording()
        with door:
            port = door.getsockname()[1]
            result = self.view("run.pickle.xz", f"--serve={port}")
        self.assert_could_not(result, rf"{re.escape(shown)}:{port} is in use by another program")

    def test_a_port_in_use_is_refused(self):
        self.assert_in_use(listen(socket.AF_INET, "127.0.0.1"), "127.0.0.1")

    def test_a_port_in_use_at_the_other_address_of_localhost_is_refused(self):
        self.assert_in_use(listen(socket.AF_INET6, "::1"), "[::1]")

    def test_an_address_of_another_machine_is_refused(self):
        self.recording()
        result = self.view("run.pickle.xz", "--serve=192.0.2.1:0")
        self.assert_could_not(result, "cannot serve at 192.0.2.1:0: ")

    def test_an_address_that_others_reach_is_said_to_be_one(self):
        self.recording()
        server = Server(self, "0.0.0.0:0", "run.pickle.xz")
        self.assertEqual(server.get("", address="127.0.0.1", host="127.0.0.1")[0], 200)
        self.assertEqual(server.get("", address="127.0.0.1", host="attacker.example")[0], 403)
        status, said = server.end()
        self.assertEqual(status, 0)
        self.assertIn("0.0.0.0 can be reached from other machines", said)


class Browsers(ViewCase):
    """A browser that writes what it was given into a pipe with a name, on which the tests wait."""

    def setUp(self) -> None:
        super().setUp()
        self.pipe = self.here / "pipe"
        os.mkfifo(self.pipe)
        self.browser = self.here / "browser"
        self.browser.write_text(f'#!/bin/sh\necho "$1" > "{self.pipe}"\n')
        self.browser.chmod(0o700)
        self.environment.update(DISPLAY=":99", BROWSER=str(self.browser))
        self.recording()

    def on_a_terminal(self, *arguments) -> subprocess.Popen:
        outside, inside = pty.openpty()
        self.addCleanup(os.close, outside)
        command = [PROGRAM, "view", "--no-what-if", *arguments]
        process = subprocess.Popen(command, cwd=self.here, env=self.environment, stdin=inside,
                                   stdout=inside, stderr=inside)
        os.close(inside)
        self.addCleanup(process.wait, LIMIT_SECONDS)
        return process

    def test_a_page_is_opened_where_somebody_can_see_it(self):
        process = self.on_a_terminal("run.pickle.xz")
        opened = self.pipe.read_text()
        self.assertEqual(process.wait(LIMIT_SECONDS), 0)
        self.assertEqual(opened, f"{os.path.realpath(self.here)}/run.pickle.xz.html\n")

    def test_a_served_page_is_opened_at_its_address(self):
        process = self.on_a_terminal("run.pickle.xz", "--serve")
        opened = self.pipe.read_text()
        self.assertRegex(opened, r"\Ahttp://127\.0\.0\.1:\d+/[0-9a-f]{32}/\n\Z")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT_SECONDS), 0)

    def test_without_a_browser_the_page_is_there_all_the_same(self):
        self.environment["BROWSER"] = "/nonexistent/browser"
        self.assertEqual(self.on_a_terminal("run.pickle.xz").wait(LIMIT_SECONDS), 0)
        self.assert_page(self.here / "run.pickle.xz.html")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
