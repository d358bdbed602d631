#!/usr/bin/env python3
"""test_run_files.py PROGRAM [unittest arguments] - the files that a watched program writes, in
folders that other users can write to. See run_case.py.
"""
import os
import pickle
import stat
import sys

import run_case
from run_case import FAILS, RunCase

# Five steps, so that there is a log of them.
STEPS = """
import os, sys, torch
torch._C.allocate(1)
optimizer = torch.optim.Optimizer()
for step in range(5):
    optimizer.step()
"""
TELLS_AN_ERROR = "sys.modules['_vramwise_watch']._report_error(MemoryError('made up'), False)\n"
RUNS_OUT = STEPS + "torch._C.allocate(9 << 30)\n"


def planting(*names: str) -> str:
    """A program's lines: links to the victim at these names, with its process number for PID."""
    return "\n".join(f"os.symlink(os.path.abspath('victim'), {name!r}.replace('PID', "
                     "str(os.getpid())))" for name in names) + "\n"


class Files(RunCase):
    def setUp(self) -> None:
        super().setUp()
        self.victim = self.here / "victim"
        self.victim.write_bytes(b"precious")

    def assert_snapshot(self, name: str) -> None:
        self.assertFalse((self.here / name).is_symlink(), name)
        with open(self.here / name, "rb") as file:
            self.assertIn("segments", pickle.load(file))

    def assert_modes(self, *names: str) -> None:
        self.assertEqual([(name, oct(stat.S_IMODE((self.here / name).lstat().st_mode)))
                          for name in names], [(name, "0o600") for name in names])

    def assert_no_parts(self) -> None:
        self.assertEqual([path.name for path in self.here.iterdir()
                          if path.name.endswith(".part") and not path.is_symlink()], [])

    def test_links_at_the_names_of_a_failures_files_are_not_followed(self):
        stem = "vramwise-oom-train-PID"
        result = self.run_python(STEPS + planting(
            f".{stem}.pickle.PID.part", f".{stem}.steps.jsonl.PID.part", f"{stem}.steps.jsonl")
            + "torch._C.allocate(9 << 30)\n")
        self.assertEqual(self.victim.read_bytes(), b"precious")
        (name,) = self.files("vramwise-oom-*.pickle")
        self.assert_snapshot(name)
        steps = self.here / name.replace(".pickle", ".steps.jsonl")
        self.assertFalse(steps.is_symlink())
        self.assertEqual(len(steps.read_text(encoding="utf-8").splitlines()), 5)
        self.assertIn(f"the snapshot is {name}", result.stderr)
        self.assert_no_parts()

    def test_a_link_at_the_name_of_a_snapshot_is_left_and_another_name_taken(self):
        self.run_python(STEPS + planting("vramwise-oom-train-PID.pickle")
                        + "torch._C.allocate(9 << 30)\n")
        other, name = self.files("vramwise-oom-*.pickle")[::-1]
        self.assertEqual(name, other.replace(".pickle", "-2.pickle"))
        self.assertTrue((self.here / other).is_symlink())
        self.assert_snapshot(name)
        self.assertEqual(self.victim.read_bytes(), b"precious")

    def test_a_file_that_takes_the_name_while_a_snapshot_is_written_is_kept(self):
        result = self.run_python(STEPS + "import pickle\ndump = pickle.dump\n"
                                 "def slow_dump(snapshot, file):\n"
                                 "    dump(snapshot, file)\n"
                                 "    with open(f'vramwise-oom-train-{os.getpid()}.pickle', 'x') as "
                                 "other:\n        other.write('theirs')\n"
                                 "pickle.dump = slow_dump\ntorch._C.allocate(9 << 30)\n")
        theirs, name = self.files("vramwise-oom-*.pickle")[::-1]
        self.assertEqual((self.here / theirs).read_text(encoding="utf-8"), "theirs")
        self.assert_snapshot(name)
        self.assertIn(f"the snapshot is {name}", result.stderr)

    def test_links_at_the_names_of_a_recording_are_not_followed(self):
        self.run_python(STEPS + planting(".run.pickle.PID.part", ".run.steps.jsonl.PID.part",
                                         "run.pickle", "run.steps.jsonl"), "--record", "run.pickle")
        self.assertEqual(self.victim.read_bytes(), b"precious")
        self.assert_snapshot("run.pickle")
        self.assertEqual(len((self.here / "run.steps.jsonl").read_text().splitlines()), 5)
        self.assert_modes("run.pickle", "run.steps.jsonl")
        self.assert_no_parts()

    def test_links_in_the_folder_of_the_run_are_not_followed(self):
        script = self.script(STEPS + "folder = os.environ['VRAMWISE_RUN']\n" + planting(
            ".steps-PID.jsonl.PID.part", "steps-PID.jsonl").replace(
                ", '", ", folder + '/' + '") + TELLS_AN_ERROR
            + "print(open(f'{folder}/steps-{os.getpid()}.jsonl').read().count('\\n'))\n")
        result = self.run_it("--", "sh", "-c", "for name in entered torch cuda; do "
                             f"ln -s {self.here}/made-$name $VRAMWISE_RUN/$name; done; "
                             f"exec {sys.executable} {script}")
        self.assertEqual((result.stdout, self.files("made-*")), ("5\n", []))
        self.assertEqual(self.victim.read_bytes(), b"precious")

    def test_only_the_user_can_read_what_is_written_whatever_the_umask(self):
        for options in ((), ("--record", "run.pickle")):
            result = self.run_python("import os\nos.umask(0)\n" + RUNS_OUT, *options)
            self.assertIn("the snapshot is", result.stderr)
        names = self.files("*.pickle") + self.files("*.jsonl")
        self.assertEqual(len(names), 4)
        self.assert_modes(*names)

    def test_only_the_user_can_read_the_files_in_the_folder_of_the_run(self):
        result = self.run_it("--", "sh", "-c", f"umask 0; {sys.executable} " + self.script(
            STEPS + TELLS_AN_ERROR + "folder = os.environ['VRAMWISE_RUN']\n"
            "print({name.split('-')[0]: oct(os.stat(os.path.join(folder, name)).st_mode & 0o777)\n"
            "       for name in sorted(os.listdir(folder)) if name != 'socket'})\n"))
        self.assertEqual(result.stdout, "{'cuda': '0o600', 'entered': '0o600', 'steps': '0o600', "
                         "'torch': '0o600'}\n")

    def test_only_parts_of_our_files_are_removed(self):
        part, other = self.here / ".vramwise-0123456789abcdef.part", self.here / "kept.part"
        for path in part, other:
            path.write_text("half")
        self.run_python("import os, socket\n"
                        "to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                        "to.connect(os.environ['VRAMWISE_RUN'] + '/socket')\n"
                        f"for number, path in (3999998, '{part}'), (3999999, '{other}'):\n"
                        "    to.send(f'writing\\0pid={number}\\0path={path}\\0'.encode())\n")
        self.assertEqual((part.exists(), other.exists()), (False, True))

    def test_what_is_no_plain_file_keeps_nobody_waiting(self):
        os.mkfifo(self.here / "pipe")
        for name in str(self.here / "pipe"), "/dev/zero", str(self.here):
            with self.subTest(name):
                result = self.run_python("import os, socket\n"
                                         "to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                                         "to.connect(os.environ['VRAMWISE_RUN'] + '/socket')\n"
                                         "to.send(b'oom\\0pid=3999999\\0text=CUDA out of memory\\0')\n"
                                         f"to.send(b'file\\0pid=3999999\\0path={name}\\0steps={name}\\0')\n")
                self.assertEqual(result.returncode, 0)
                self.assertIn(f"vramwise: the doctor cannot read the snapshot: {name} is not there, or no plain file",
                              result.stderr.replace("\n", " "))

    def test_a_disk_that_is_full_leaves_no_part_of_a_file(self):
        result = self.run_python(STEPS + "import resource, signal\n"
                                 "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
                                 "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
                                 "open_files = len(os.listdir('/proc/self/fd'))\n"
                                 "try:\n    torch._C.allocate(9 << 30)\n"
                                 "except torch.OutOfMemoryError:\n"
                                 "    print(len(os.listdir('/proc/self/fd')) - open_files)\n",
                                 FAKE_TORCH_LOG="")
        self.assertEqual((result.returncode, result.stdout), (0, "0\n"))
        self.assertIn("vramwise: no snapshot of the failure could be written: OSError: [Errno 27] "
                      "File too large", result.stderr)
        self.assertEqual(sorted(path.name for path in self.here.iterdir()), ["train.py", "victim"])
        self.assertEqual([path for path in self.folder.iterdir() if path.name.endswith(".part")], [])

    def test_two_processes_with_the_same_number_keep_apart(self):
        # As in two containers that share a folder. The second one runs while the first one writes.
        self.run_python("import os, pickle, subprocess, sys\nos.getpid = lambda: 4711\n"
                        "dump = pickle.dump\n"
                        "def slow_dump(snapshot, file):\n    dump(snapshot, file)\n"
                        "    if 'SECOND' not in os.environ:\n"
                        "        file.flush()\n"
                        "        subprocess.run([sys.executable, __file__], stderr=subprocess.DEVNULL,\n"
                        "                       env={**os.environ, 'SECOND': '1'})\n"
                        "pickle.dump = slow_dump\n" + FAILS)
        names = ["vramwise-oom-train-4711-2.pickle", "vramwise-oom-train-4711.pickle"]
        self.assertEqual(self.files("vramwise-oom-*.pickle"), names)
        for name in names:
            self.assert_snapshot(name)
        self.assert_no_parts()
        self.assertEqual(list(self.folder.glob("*.pickle")), [])

    def test_a_pipe_or_a_device_is_not_recorded_to(self):
        os.mkfifo(self.here / "pipe")
        (self.here / "link").symlink_to("pipe")
        for name in ("pipe", "link", "/dev/null"):
            result = self.run_python("print(1)", "--record", name)
            self.assertEqual((result.returncode, result.stdout), (125, ""))
            self.assertEqual(result.stderr, f"vramwise run: cannot record to '{name}': expected a "
                             "regular file, found a pipe or a device\n")
        self.assertTrue((self.here / "pipe").is_fifo())

    def test_a_snapshot_that_somebody_else_asks_for_is_not_written(self):
        asking = STEPS + (
            "watch, own = sys.modules['_vramwise_watch'], os.geteuid\n"
            "asked = os.path.join(os.environ['VRAMWISE_RUN'], f'ask-{os.getpid()}')\n"
            "def ask(name):\n"
            "    with open(name, 'w') as file:\n        file.write(os.path.abspath('victim'))\n"
            "def show():\n    watch._answer()\n    print(os.path.getsize('victim'))\n")
        result = self.run_python(asking + "ask(asked)\nos.geteuid = lambda: own() + 1\nshow()\n"
                                 "os.geteuid = own\nos.unlink(asked)\nask('elsewhere')\n"
                                 "os.symlink(os.path.abspath('elsewhere'), asked)\nshow()\n"
                                 "os.unlink(asked)\nos.mkfifo(asked)\nshow()\n")
        self.assertEqual(result.stdout, "8\n" * 3)
        self.assertEqual(self.victim.read_bytes(), b"precious")
        self.run_python(asking + "ask(asked)\nshow()\n")
        self.assert_snapshot("victim")

    def test_nothing_is_sent_to_a_folder_that_somebody_else_has_made(self):
        """After the run: the name is free, and the process goes on."""
        result = self.run_python(STEPS + """
import socket
watch, own = sys.modules["_vramwise_watch"], os.geteuid
folder = os.environ["VRAMWISE_RUN"] = os.path.abspath("run")
os.mkdir(folder, 0o700)
door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
door.bind(os.path.join(folder, "socket"))
door.setblocking(False)
def show():
    watch._report_error(MemoryError("out of memory"), True)
    watch._leave_word("word")
    kinds = []
    try:
        while True:
            kinds.append(door.recv(99).split(b"\\0")[0].decode())
    except BlockingIOError:
        pass
    left = [name for name in os.listdir(folder) if name != "socket"]
    for name in left:
        os.unlink(os.path.join(folder, name))
    print(kinds, len(left))
show()
os.geteuid = lambda: own() + 1
show()
os.geteuid = own
os.chmod(folder, 0o777)
show()
os.chmod(folder, 0o700)
os.rename(folder, "elsewhere")
os.symlink("elsewhere", folder)
show()
""")
        self.assertEqual(result.stdout, "['writing', 'error'] 2\n" + "[] 0\n" * 3, result.stderr)


if __name__ == "__main__":
    run_case.main()
