#!/usr/bin/env python3
"""test_mcp.py PROGRAM DATA [unittest arguments] - `vramwise mcp`, by a client that speaks the protocol.

The client is the standard library's: it starts the program, sends a message per line and reads an answer
per line. DATA is tests/data. Nothing depends on time; the limits are for what never answers.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

PROGRAM = DATA = ""
LIMIT_SECONDS = 100
RECORDING = "oom_fragmented.native.pickle.xz"
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": {}}
ERROR = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
         "23.65 GiB of which 1.10 GiB is free. Including non-PyTorch memory, this process has 22.55 GiB memory in "
         "use. Of the allocated memory 21.80 GiB is allocated by PyTorch, and 310.00 MiB is reserved by PyTorch but "
         "unallocated.\n")


class Client:
    """One server, and the conversation with it."""

    def __init__(self, *folders, **variables):
        environment = dict(os.environ, LC_ALL="C.UTF-8", **variables)
        self.process = subprocess.Popen([PROGRAM, "mcp", *map(str, folders)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        self.guard = threading.Timer(LIMIT_SECONDS, self.process.kill)
        self.guard.start()
        self.next_id = 0

    def send(self, line):
        self.process.stdin.write(line if isinstance(line, bytes) else line.encode())
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise EOFError("the server ended: " + self.process.stderr.read().decode())
        return json.loads(line)

    def request(self, method, params=None):
        self.next_id += 1
        message = {"jsonrpc": "2.0", "id": self.next_id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(json.dumps(message) + "\n")
        answer = self.read()
        assert answer["jsonrpc"] == "2.0" and answer["id"] == self.next_id, answer
        return answer

    def begin(self, version="2025-11-25"):
        answer = self.request("initialize", {"protocolVersion": version, "capabilities": {},
                                             "clientInfo": {"name": "test", "version": "1"}})
        self.send('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        return answer["result"]

    def call(self, tool, **arguments):
        """The text of the answer, and whether it is an error."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})["result"]
        [content] = result["content"]
        assert content["type"] == "text", content
        return content["text"], result["isError"]

    def end(self):
        """Closes the input, as a client does that is done, and returns how the server ended."""
        self.process.stdin.close()
        return self.process.wait(), self.process.stderr.read().decode()

    def drop(self):
        self.guard.cancel()
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


class McpCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mcp-")
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        self.runs = self.here / "runs"
        self.runs.mkdir()
        shutil.copy(pathlib.Path(DATA) / "recordings" / RECORDING, self.runs)

    def client(self, *folders, **variables):
        client = Client(*(folders or [self.runs]), **variables)
        self.addCleanup(client.drop)
        return client

    def assert_ends_well(self, client):
        self.assertEqual(client.end(), (0, ""))

    def good(self, client, tool, **arguments):
        text, is_error = client.call(tool, **arguments)
        self.assertFalse(is_error, text)
        return text

    def bad(self, client, tool, **arguments):
        text, is_error = client.call(tool, **arguments)
        self.assertTrue(is_error, text)
        return text


class Conversation(McpCase):
    def test_a_session_of_the_old_kind(self):
        client = self.client()
        begun = client.begin()
        self.assertEqual(begun["protocolVersion"], "2025-11-25")
        self.assertIn("tools", begun["capabilities"])
        self.assertIn(str(self.runs.resolve()), begun["instructions"])
        self.assertEqual(client.request("ping")["result"], {})
        tools = {tool["name"]: tool for tool in client.request("tools/list")["result"]["tools"]}
        self.assertEqual(sorted(tools), ["doctor", "plan", "replay", "stats", "tune"])
        for tool in tools.values():
            self.assertTrue(tool["annotations"]["readOnlyHint"])
            schema = tool["inputSchema"]
            self.assertEqual(schema["type"], "object")
            self.assertLessEqual(set(schema["required"]), set(schema["properties"]))
        self.assert_ends_well(client)

    def test_requests_of_the_new_kind_need_no_beginning(self):
        client = self.client()
        found = client.request("server/discover", {"_meta": MODERN})["result"]
        self.assertEqual(found["supportedVersions"][0], "2026-07-28")
        listed = client.request("tools/list", {"_meta": MODERN})["result"]
        self.assertEqual((listed["resultType"], len(listed["tools"])), ("complete", 5))
        called = client.request("tools/call", {"_meta": MODERN, "name": "doctor",
                                               "arguments": {"text": ERROR}})["result"]
        self.assertEqual((called["resultType"], called["isError"]), ("complete", False))
        self.assert_ends_well(client)

    def test_every_option_of_a_tool_is_one_of_its_command(self):
        """A parameter that its command does not know would make every call with it fail."""
        values = {"integer": 1, "boolean": True, "string": "1GiB"}
        client = self.client()
        for tool in client.request("tools/list")["result"]["tools"]:
            for name, schema in tool["inputSchema"]["properties"].items():
                text, _ = client.call(tool["name"], **{
                    **{needed: RECORDING if needed == "file" else "24GiB"
                       for needed in tool["inputSchema"]["required"]},
                    name: RECORDING if name in ("file", "config", "from") else values[schema["type"]]})
                self.assertNotIn("unknown option", text, f"{tool['name']} {name}")
                self.assertNotIn("takes no value", text, f"{tool['name']} {name}")
        self.assert_ends_well(client)

    def test_what_makes_no_sense_is_answered_and_the_next_message_too(self):
        client = self.client()
        for line, code in ((b"nonsense\n", -32700), (b"\xff\xfe{}\n", -32700), (b"\0 \0\n", -32700), (b"[]\n", -32600),
                           (b'{"jsonrpc": "2.0", "id": 1}\n', -32600), (b"[" * 5000 + b"\n", -32600),
                           (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/rm"}\n', -32601),
                           (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}\n',
                            -32602)):
            client.send(line)
            self.assertEqual(client.read()["error"]["code"], code, line[:60])
        client.send(b'\r\n\n   \n{"jsonrpc": "2.0", "method": "notifications/nothing"}\r\n')
        self.assertEqual(client.request("ping")["result"], {})
        self.assert_ends_well(client)

    def test_a_message_may_be_long_but_not_too_long(self):
        client = self.client()
        text = ERROR + "x" * 900_000
        self.assertIn("genuine", self.good(client, "doctor", text=text).lower())
        client.send(b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * 3_000_000 + b'"}\n')
        self.assertEqual(client.read()["error"]["code"], -32600)
        self.assertEqual(client.request("ping")["result"], {})
        self.assert_ends_well(client)

    def test_a_last_message_without_its_line_end_is_answered(self):
        client = self.client()
        client.send('{"jsonrpc": "2.0", "id": 9, "method": "ping"}')
        client.process.stdin.close()
        self.assertEqual(client.read(), {"jsonrpc": "2.0", "id": 9, "result": {}})
        self.assertEqual(client.process.wait(), 0)


class Tools(McpCase):
    def test_the_doctor_reads_an_error_that_is_pasted_or_a_file(self):
        (self.runs / "train.log").write_text("step 1\n" + ERROR, encoding="utf-8")
        client = self.client()
        pasted = json.loads(self.good(client, "doctor", text=ERROR, json=True))
        self.assertEqual(pasted["verdict"], "genuine")
        self.assertEqual(json.loads(self.good(client, "doctor", file="train.log", json=True))["verdict"], "genuine")
        self.assertIn("Fragmentation", self.good(client, "doctor", file=RECORDING))
        for arguments in ({}, {"text": "x", "file": "train.log"}):
            self.assertEqual(self.bad(client, "doctor", **arguments), "doctor: expected one of file, text")
        self.assert_ends_well(client)

    def test_answers_are_what_the_commands_say(self):
        client = self.client()
        path = str(self.runs.resolve() / RECORDING)
        for tool, arguments, line in (
                ("stats", {"file": RECORDING, "top": 3}, ["stats", path, "--no-summary", "--top=3"]),
                ("replay", {"file": RECORDING, "policy": "native,vramwise", "smallest_card": True},
                 ["replay", path, "--policy=native,vramwise", "--smallest-card"]),
                ("tune", {"file": RECORDING, "card": "rtx4090"}, ["tune", path, "--card=rtx4090"]),
                ("plan", {"model": "meta-llama/Meta-Llama-3-8B", "batch": 2, "lora": 8, "card": "24GiB"},
                 ["plan", "--model=llama-3-8b", "--batch=2", "--lora=8", "--card=24GiB"])):
            said = subprocess.run([PROGRAM, *line], stdout=subprocess.PIPE, check=False, text=True,
                                  env=dict(os.environ, LC_ALL="C.UTF-8")).stdout
            self.assertEqual(self.good(client, tool, **arguments), said, tool)
        self.assert_ends_well(client)

    def test_a_command_that_cannot_says_why(self):
        (self.runs / "empty.pickle").write_bytes(b"")
        client = self.client()
        self.assertIn("empty", self.bad(client, "stats", file="empty.pickle"))
        self.assertIn("llama-3-8b", self.bad(client, "plan", model="no-such-model"))
        self.assertIn("--card", self.bad(client, "tune", file=RECORDING, card="abacus"))
        (self.runs / "config.json").write_text("{}", encoding="utf-8")
        self.assertEqual(self.bad(client, "plan", model="gpt2", config="config.json"),
                         "plan: expected one of model, config, from")
        self.assert_ends_well(client)

    def test_an_answer_is_bounded(self):
        """Four hundred users of memory, each with a place of its own."""
        blocks = [{"size": 512, "requested_size": 512, "address": 512 * i, "state": "active_allocated",
                   "frames": [{"filename": f"/home/somebody/work/project/models/part_{i}.py", "line": i + 1,
                               "name": f"forward_of_part_{i}"}]} for i in range(400)]
        segment = {"address": 0, "total_size": 512 * 400, "stream": 0, "segment_type": "small", "device": 0,
                   "allocated_size": 512 * 400, "active_size": 512 * 400, "blocks": blocks}
        (self.runs / "many.json").write_text(json.dumps([segment]), encoding="utf-8")
        client = self.client()
        self.assertIn("more than 32768 bytes", self.bad(client, "stats", file="many.json", top=0, json=True))
        cut = self.good(client, "stats", file="many.json", top=0, stacks=True)
        self.assertTrue(cut.endswith("'top', where there is one, asks for fewer rows\n"), cut[-200:])
        self.assertLessEqual(len(cut.encode()), 33 * 1024)
        self.assertLess(len(self.good(client, "stats", file="many.json", top=3, json=True)), 32768)
        self.assert_ends_well(client)

    def test_a_tool_whose_time_is_up_is_stopped(self):
        client = self.client(VRAMWISE_MCP_TIMEOUT="0")
        self.assertIn("longer than 0 s", self.bad(client, "tune", file=RECORDING, card="24GiB"))
        self.assertEqual(client.request("ping")["result"], {})
        self.assert_ends_well(client)


class Meanwhile(McpCase):
    """Messages that come while a tool runs. A log is read up to a thousand times of what is stored of it: 64 GB of nothing
    take long enough for any machine."""

    def setUp(self):
        super().setUp()
        with open(self.runs / "endless.log", "wb") as log:
            log.write(b"\0" * (64 << 20))
            log.truncate(1 << 40)

    def ask(self, client, number, token=None):
        """A call that goes on, until it is cancelled."""
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        client.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {
            "name": "doctor", "arguments": {"file": "endless.log"}, **meta}}) + "\n")

    def cancel(self, client, number):
        client.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled",
                                "params": {"requestId": number, "reason": "changed my mind"}}) + "\n")

    def children(self, client):
        process = client.process.pid
        return pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()

    def test_a_tool_that_runs_is_stopped_and_its_call_not_answered(self):
        client = self.client()
        self.ask(client, "long", token=17)
        told = client.read()
        self.assertEqual((told["method"], told["params"]["progressToken"]), ("notifications/progress", 17))
        self.assertEqual(len(self.children(client)), 1)
        self.cancel(client, "another")
        self.cancel(client, "long")
        client.send('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        answer = client.read()
        while answer.get("method") == "notifications/progress":  # those that were on their way
            self.assertGreater(answer["params"]["progress"], told["params"]["progress"])
            told, answer = answer, client.read()
        self.assertEqual(answer, {"jsonrpc": "2.0", "id": 1, "result": {}})
        self.assertEqual(self.children(client), [])
        self.assertIn("Fragmentation", self.good(client, "doctor", file=RECORDING))
        self.assert_ends_well(client)

    def test_a_call_may_be_cancelled_before_its_turn(self):
        client = self.client()
        client.send(b"\n")
        self.ask(client, 1)
        self.ask(client, 2)
        self.cancel(client, 2)
        self.cancel(client, 1)
        client.send('{"jsonrpc": "2.0", "id": 3, "method": "ping"}\n')
        self.assertEqual(client.read(), {"jsonrpc": "2.0", "id": 3, "result": {}})
        self.assert_ends_well(client)

    def test_what_makes_no_sense_meanwhile_waits_for_its_answer(self):
        client = self.client()
        self.ask(client, 1, token="t")
        self.assertEqual(client.read()["method"], "notifications/progress")
        client.send(b'nonsense\n{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [1]}\n')
        client.send(b"[" * 500_000 + b"\n")
        self.assertEqual(client.read()["method"], "notifications/progress")  # it goes on
        self.cancel(client, 1)
        answers = [client.read()]
        while len(answers) < 2 or "error" not in answers[-2]:
            answers.append(client.read())
        self.assertEqual([answer["error"]["code"] for answer in answers[-2:]], [-32700, -32600])
        self.assertNotIn(1, [answer.get("id") for answer in answers])
        self.assert_ends_well(client)

    def test_a_client_that_leaves_gets_no_more_and_takes_the_tool_with_it(self):
        client = self.client()
        self.ask(client, 1, token="t")
        client.read()
        [child] = self.children(client)
        client.process.kill()
        client.process.wait()
        while pathlib.Path(f"/proc/{child}").exists() and \
                "\nState:\tZ" not in pathlib.Path(f"/proc/{child}/status").read_text():
            pass  # the kernel ends it with its parent


class Folders(McpCase):
    def test_only_files_of_the_folders_are_read(self):
        outside = self.here / "outside.pickle.xz"
        shutil.copy(self.runs / RECORDING, outside)
        (self.here / "runs-too").mkdir()
        shutil.copy(self.runs / RECORDING, self.here / "runs-too" / "near.pickle.xz")
        (self.runs / "out").symlink_to(outside)
        (self.runs / "up").symlink_to(self.here)
        (self.runs / "in").symlink_to(RECORDING)
        os.mkfifo(self.runs / "pipe")
        client = self.client()
        for name in (str(outside), "../outside.pickle.xz", "out", "up/outside.pickle.xz", "/etc/passwd",
                     str(self.here / "runs-too" / "near.pickle.xz"), "../runs-too/near.pickle.xz", "", "none",
                     "-", "/dev/stdin", "x" * 5000):
            self.assertIn("no such file in the folders", self.bad(client, "stats", file=name), name)
            self.assertIn("no such file in the folders", self.bad(client, "plan", config=name), name)
            self.assertIn("no such file in the folders", self.bad(client, "plan", batch_now=1, **{"from": name}), name)
        for name in ("pipe", "."):
            self.assertIn("expected a plain file", self.bad(client, "doctor", file=name))
        self.good(client, "stats", file="in")
        self.good(client, "stats", file=str(self.runs / RECORDING))
        self.good(client, "stats", file=f"../runs/{RECORDING}")
        self.assert_ends_well(client)

    def test_a_value_cannot_become_an_option_or_a_file(self):
        target = self.here / "written"
        client = self.client()
        self.bad(client, "plan", model=f"--write-trace={target}")
        self.bad(client, "plan", model="gpt2", precision=f"bf16 --write-trace={target}")
        self.assertIn("has no argument", self.bad(client, "plan", model="gpt2", write_trace=str(target)))
        (self.runs / "--json").write_bytes((self.runs / RECORDING).read_bytes())
        self.assertNotEqual(self.good(client, "stats", file="--json")[0], "{")
        self.bad(client, "plan", model=str(self.runs / "config.json"))
        self.assertFalse(target.exists())
        self.assert_ends_well(client)

    def test_several_folders_are_looked_through_in_turn(self):
        other = self.here / "other"
        other.mkdir()
        shutil.move(self.runs / RECORDING, other / RECORDING)
        client = self.client(self.runs, other)
        self.good(client, "stats", file=RECORDING)
        self.assert_ends_well(client)

    def test_wrong_folders_are_refused_at_the_start(self):
        for folders, words in (([], "expected the folders"), ([self.here / "none"], "No such file"),
                               ([self.runs / RECORDING], "expected a folder"), (["--json"], "unknown option")):
            done = subprocess.run([PROGRAM, "mcp", *map(str, folders)], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    PROGRAM, DATA = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
