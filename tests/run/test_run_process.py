#!/usr/bin/env python3
"""test_run_process.py PROGRAM [unittest arguments] - `vramwise run` as a process: signals, status,
and what goes wrong. See run_case.py.
"""
import contextlib
import fcntl
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

import run_case
from run_case import FAILS, FAKE_TORCH, HOOK_FILES, LIMIT_SECONDS, ROOT, RunCase


CAN_HIDE_PROC = os.geteuid() == 0 and subprocess.run(
    ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/proc"], capture_output=True, check=False).returncode == 0


class GoingWrong(RunCase):
    def test_a_command_that_is_not_there_ends_with_125(self):
        result = self.run_it("--", "no-such-program")
        self.assertEqual(result.returncode, 125)
        self.assertEqual(result.stderr, "vramwise run: cannot start 'no-such-program': "
                         "No such file or directory\n")
        result = self.run_it("--", "no-such-program", VRAMWISE_DISABLE="1")
        self.assertEqual(result.returncode, 125)

    def test_a_script_without_its_interpreter_is_told_how_to_start(self):
        self.script("print('started')\n")
        result = self.run_it("train.py")
        self.assertEqual(result.returncode, 125)
        self.assertIn("A script needs its interpreter: vramwise run python train.py\n", result.stderr)
        result = self.run_it("no-such-script.py")
        self.assertNotIn("interpreter", result.stderr)

    def test_a_crash_in_the_handler_is_one_line_and_the_job_ends_as_it_would_have(self):
        result = self.run_python(FAILS, FAKE_TORCH_CRASH="1")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("vramwise: the out-of-memory error could not be looked "
                                             "at: ZeroDivisionError: made up\n"), 1)
        self.assertIn("torch.OutOfMemoryError: CUDA out of memory.", result.stderr)
        self.assertIn("Verdict: genuine", result.stderr)  # by the error alone
        self.assertEqual(self.files("*"), ["train.py"])

    def test_where_the_folder_cannot_be_written_to_the_file_goes_to_the_temporary_one(self):
        result = self.run_python(
            FAILS.replace("import torch", "import os, torch\n"
                          "os.environ['VRAMWISE_RUN_FOLDER'] = '/proc/none'"))
        self.assertRegex(result.stderr, r"the snapshot is \S*vramwise-oom-train-\d+\.pickle")
        self.assertEqual(len(list(self.folder.glob("vramwise-oom-*.pickle"))), 1)

    def test_in_a_folder_that_was_removed_the_file_goes_to_the_temporary_one(self):
        script, gone = self.script(FAILS), self.folder / "gone"
        gone.mkdir()
        result = self.run_it("--", "sh", "-c", f"unset VRAMWISE_RUN_FOLDER; cd {gone}; rmdir {gone}; "
                             f"exec {sys.executable} {script}")
        self.assertRegex(result.stderr, r"the snapshot is \S*vramwise-oom-train-\d+\.pickle")
        self.assertEqual(len(list(self.folder.glob("vramwise-oom-*.pickle"))), 1)

    def copy_of_program(self, name):
        """The program in a folder of that name, with its package beside it."""
        place = self.folder / name
        place.mkdir()
        shutil.copy(run_case.PROGRAM, place / "vramwise")
        (place / "python").symlink_to(ROOT / "python")
        return place / "vramwise"

    def test_a_program_in_a_folder_with_an_odd_name_finds_its_hook(self):
        self.script(FAILS)
        for name in "a[b]", "c*d", "e?f", "g\\h", "[!i]":
            with self.subTest(name):
                result = subprocess.run([self.copy_of_program(name), "run", sys.executable, "train.py"], cwd=self.here,
                                        env=self.environment, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
                self.assertIn("Verdict: ", result.stderr)

    @unittest.skipUnless(CAN_HIDE_PROC, "only who may mount can hide /proc")
    def test_without_proc_it_finds_its_hook_by_the_name_it_was_started_by(self):
        if b"__asan_init" in pathlib.Path(run_case.PROGRAM).read_bytes():
            self.skipTest("the leak sanitizer needs /proc")
        program = self.copy_of_program("bin")
        self.script("import os, pathlib\nprint('entered', pathlib.Path(os.environ['VRAMWISE_RUN'], 'entered').exists())\n")
        for started in str(program), f"../{program.parent.name}/vramwise":
            result = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh", started, "run",
                                     sys.executable, "train.py"], cwd=self.here, env=self.environment, capture_output=True,
                                    text=True, timeout=LIMIT_SECONDS, check=False)
            self.assertEqual((result.returncode, result.stdout), (0, "entered True\n"), result.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs files of another user")
    def test_a_hook_that_others_have_put_beside_the_program_is_not_taken(self):
        place = self.folder / "for_all"
        for found in place / "python", self.folder / "vramwise":
            hook = found / ("vramwise/_start" if found.name == "python" else "_start")
            hook.mkdir(parents=True)
            (hook / "sitecustomize.py").write_text("print('entered')\n", encoding="utf-8")
            place.mkdir(exist_ok=True)
            shutil.copy(run_case.PROGRAM, place / "vramwise")
            os.chown(place / "vramwise", 0, -1)

            def run(**variables):
                return subprocess.run([place / "vramwise", "run", sys.executable, "-c", "print('run')"], cwd=self.here,
                                      env={**self.environment, **variables}, capture_output=True, text=True,
                                      timeout=LIMIT_SECONDS, check=False)

            self.assertEqual(run().stdout, "entered\nrun\n")
            os.chown(found, 65534, -1)
            result = run()
            self.assertEqual((result.returncode, result.stdout), (125, ""))
            self.assertIn("start-up hook is missing", result.stderr)
            if found.name == "python":  # the user has chosen it
                self.assertEqual(run(VRAMWISE_PYTHON=str(found)).stdout, "entered\nrun\n")
            os.chown(place / "vramwise", 65534, -1)  # one user has installed both
            self.assertEqual(run().stdout, "entered\nrun\n")
            shutil.rmtree(found)

    def test_the_program_finds_the_streams_closed_that_are(self):
        look = 'for i in 0 1 2; do [ ! -e /proc/$$/fd/$i ] || open="$open$i"; done; echo "$open" > "$0"'
        for disabled in "", "1":
            for closed, left in (("<&-", "12"), (">&-", "02"), ("2>&-", "01"), ("<&- >&- 2>&-", "")):
                with self.subTest(closed, disabled=disabled):
                    run = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *self.command("--", "sh", "-c", look, "found")],
                                         cwd=self.here, env={**self.environment, "VRAMWISE_DISABLE": disabled},
                                         stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_SECONDS, check=False)
                    self.assertEqual((run.returncode, run.stdout, run.stderr), (0, b"", b""))
                    self.assertEqual((self.here / "found").read_text(), left + "\n")

    def test_a_log_that_may_not_grow_ends_nothing(self):
        log, least = self.here / "log", 2048
        log.write_bytes(b"x" * least)
        with log.open("ab") as errors:  # which is where the line goes that says why nothing is watched
            run = subprocess.run(self.command("--", sys.executable, "-I", "-c", "print(7)"), cwd=self.here, env=self.environment,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (least, least)), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=errors, timeout=LIMIT_SECONDS, check=False)
        self.assertEqual((run.returncode, run.stdout, log.stat().st_size), (0, b"7\n", least))

    def test_what_a_killed_run_left_is_removed_by_the_next(self):
        def run(*command):
            return subprocess.run([run_case.PROGRAM, "run", *command], cwd=self.here, env=self.environment, capture_output=True,
                                  timeout=LIMIT_SECONDS, check=False).returncode

        self.script("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n")
        self.assertEqual(run(sys.executable, "train.py"), -signal.SIGKILL)
        (left,) = self.runtime.iterdir()
        strange = [self.runtime / "vramwise-run.linked", self.runtime / "vramwise-run.a1file", self.runtime / "vramwise-run.opened"]
        (self.folder / "elsewhere").mkdir(mode=0o700)
        (self.folder / "elsewhere/kept").touch()
        strange[0].symlink_to(self.folder / "elsewhere")
        strange[1].touch()
        strange[2].mkdir(mode=0o755)
        self.assertEqual(run("true"), 0)
        self.assertTrue(left.exists())  # it may be one that is being made
        for path in left, self.folder / "elsewhere", *strange[1:]:
            os.utime(path, (1, 1))
        held = os.open(left, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_SH)
        self.assertEqual(run("true"), 0)
        self.assertTrue(left.exists())  # its run lives
        os.close(held)
        self.assertEqual(run("true"), 0)
        self.assertFalse(left.exists())
        self.assertEqual(sorted(self.runtime.iterdir()), sorted(strange))
        self.assertTrue((self.folder / "elsewhere/kept").exists())

    def test_where_others_can_rename_folders_none_is_taken_for_one_that_was_left(self):
        left = self.runtime / "vramwise-run.theirs"
        for mode, is_kept in (0o777, True), (0o770, True), (0o1777, False):
            self.runtime.chmod(mode)
            left.mkdir(mode=0o700)
            (left / "entered").touch()
            os.utime(left, (1, 1))
            subprocess.run([run_case.PROGRAM, "run", "true"], cwd=self.here, env=self.environment,
                           timeout=LIMIT_SECONDS, check=True)
            self.assertEqual((left / "entered").exists(), is_kept, oct(mode))
            shutil.rmtree(left, ignore_errors=True)

    def test_only_what_a_run_has_made_is_taken_for_what_one_left(self):
        made = ("socket", "entered", "torch", "cuda", "claim-0123abcd", "ask-12", "ask-12.part", "steps-12.jsonl",
                ".vramwise-0123456789abcdef.part")
        for name, files, is_kept in (("aB3xyz", made, False), ("empty0", (), False), ("backup7", made, True), ("kept", made, True),
                                     ("my-dir", made, True), ("theirs", (*made, "thesis.txt"), True), ("theirs", ("ask-me",), True)):
            left = self.runtime / f"vramwise-run.{name}"
            left.mkdir(mode=0o700)
            for file in files:
                (left / file).touch()
            os.utime(left, (1, 1))
            subprocess.run([run_case.PROGRAM, "run", "true"], cwd=self.here, env=self.environment,
                           timeout=LIMIT_SECONDS, check=True)
            self.assertEqual(sorted(os.listdir(left)) if left.exists() else None, sorted(files) if is_kept else None, left)
            shutil.rmtree(left, ignore_errors=True)

    def test_what_has_the_name_of_the_folder_at_the_end_is_left_alone(self):
        kept, elsewhere = self.folder / "elsewhere/kept", self.folder / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        kept.touch()
        swap = f'mv "$VRAMWISE_RUN" {self.folder}/moved && ln -s {elsewhere} "$VRAMWISE_RUN"'
        result = subprocess.run([run_case.PROGRAM, "run", "sh", "-c", swap], cwd=self.here, env=self.environment,
                                capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue(kept.exists())
        self.assertEqual(list((self.folder / "moved").iterdir()), [])  # what was made is taken away

    def test_a_process_killed_while_it_writes_leaves_no_part_of_a_file(self):
        result = self.run_python(
            "import os, signal, torch\ntorch._C.allocate(1)\n"
            "import pickle\nwatch = __import__('_vramwise_watch')\n"
            "def dump(snapshot, file):\n    file.write(b'half')\n    file.flush()\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
            "watch.pickle = type('pickle', (), {'dump': staticmethod(dump)})\n"
            "torch._C.allocate(9 << 30)\n")
        self.assertEqual(result.returncode, 128 + signal.SIGKILL)
        self.assertIn("Verdict: too-large", result.stderr)  # by the numbers it sent before
        self.assertEqual(sorted(path.name for path in self.here.iterdir()), ["train.py"])

    def test_an_allocator_without_history_is_one_line(self):
        result = self.run_python(FAILS, FAKE_TORCH_NO_HISTORY="1")
        self.assertEqual(result.stderr.count("this allocator keeps no history"), 1)
        self.assertIn("Verdict: genuine", result.stderr)  # the error still reaches the doctor

    def test_the_same_trouble_in_many_processes_is_said_once(self):
        script = self.script("import torch\ntorch._C.allocate(1)\n")
        result = self.run_it("--", "sh", "-c", f"for n in 1 2 3; do {sys.executable} {script}; done",
                             FAKE_TORCH_NO_HISTORY="1")
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_without_a_gpu_the_job_fails_as_it_would_have(self):
        result = self.run_python(FAILS, FAKE_TORCH_NO_GPU="1")
        self.assertTrue(result.stderr.endswith("RuntimeError: No CUDA GPUs are available\n"))
        self.assertEqual(result.returncode, 1)

    def test_without_the_package_an_allocator_is_refused_and_pytorchs_own_stays(self):
        hook = self.folder / "python/vramwise"
        (hook / "_start").mkdir(parents=True)
        for name in HOOK_FILES:
            (hook / name).write_bytes((ROOT / "python/vramwise" / name).read_bytes())
        result = self.run_python("import torch\ntorch._C.allocate(1)\nprint('on')\n",
                                 "--allocator", "vramwise", VRAMWISE_PYTHON=str(hook.parent))
        self.assertEqual((result.returncode, result.stdout), (0, "on\n"))
        self.assertEqual(result.stderr.count("allocator vramwise was not installed, and PyTorch's "
                                             "own stays"), 1)
        self.assertEqual(len(self.log_lines("observer")), 1)

    def test_the_allocator_is_installed_after_torch_and_before_cuda(self):
        hook = self.folder / "python/vramwise"
        (hook / "_start").mkdir(parents=True)
        for name in HOOK_FILES:
            (hook / name).write_bytes((ROOT / "python/vramwise" / name).read_bytes())
        (hook / "__init__.py").write_text("", encoding="utf-8")
        (hook / "torch.py").write_text("import torch\ndef install(name, fallback):\n"
                                       "    torch._tell(f'installed {name}')\n", encoding="utf-8")
        self.run_python("import torch\ntorch._C.allocate(1)\n", "--allocator", "vramwise:rescue",
                        VRAMWISE_PYTHON=str(hook.parent))
        self.assertEqual([line.split(" ", 1)[1] for line in self.log_lines("")][:2],
                         ["installed vramwise:rescue", "cuda started"])

    def test_without_a_listener_the_file_is_named_by_the_process_itself(self):
        script = self.script(FAILS)
        result = subprocess.run([sys.executable, script], cwd=self.here, text=True, check=False,
                                capture_output=True, timeout=LIMIT_SECONDS, env={
                                    **self.environment, "VRAMWISE_RUN": "/nowhere",
                                    "PYTHONPATH": f"{ROOT}/python/vramwise/_start:{FAKE_TORCH}"})
        (name,) = self.files("vramwise-oom-*.pickle")
        self.assertRegex(result.stderr, rf"vramwise: process \d+ ran out of GPU memory; 'vramwise "
                         rf"doctor \S*{re.escape(name)}' says why\n")

    def test_a_file_of_the_program_named_socket_stays_the_programs_own(self):
        self.script("print('the program loaded it')\n", "socket.py")
        result = self.run_python(FAILS)
        self.assertEqual(result.stdout, "")
        self.assertIn("Verdict: too-large", result.stderr)

    def test_a_name_cannot_steer_a_terminal(self):
        script = self.script("import torch\ntorch._C.allocate(1)\n")
        result = subprocess.run([sys.executable, script], cwd=self.here, text=True, check=False,
                                capture_output=True, timeout=LIMIT_SECONDS, env={
                                    **self.environment, "VRAMWISE_RUN_ALLOCATOR": "\033[31m\x9bm",
                                    "PYTHONPATH": f"{ROOT}/python/vramwise/_start:{FAKE_TORCH}"})
        self.assertIn("allocator ?[31m?m was not installed", result.stderr)

    def test_a_doctor_that_takes_too_long_is_stopped(self):
        result = self.run_python(FAILS, VRAMWISE_RUN_DOCTOR_SECONDS="0")
        self.assertIn("vramwise: the doctor takes too long, and was stopped\n", result.stderr)
        self.assertIn("the snapshot is vramwise-oom-train-", result.stderr)
        self.assertEqual(result.returncode, 1)

    def doctor_of(self, process):
        """The folder in /proc of the doctor's process, whose standard output is that of errors; or None."""
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
                if (stat[stat.rindex(")"):].split()[2] == str(process.pid) and "(vramwise)" in stat
                        and (folder / "fd/1").readlink() == (folder / "fd/2").readlink()):
                    return folder
        return None

    def test_the_doctor_has_the_limit_of_memory_that_commands_have(self):
        reader, writer = os.pipe()
        os.write(writer, b"-" * fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096))  # the report waits for room
        self.script(FAILS)
        process = subprocess.Popen(
            self.command("--", "sh", "-c", f"exec {sys.executable} train.py 2>/dev/null"), cwd=self.here,
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer)
        os.close(writer)
        with open(reader, encoding="utf-8") as stream:
            deadline = time.monotonic() + LIMIT_SECONDS
            while (doctor := self.doctor_of(process)) is None and time.monotonic() < deadline:
                time.sleep(0.01)
            limit = re.search(r"Max data size +(\w+)", (doctor / "limits").read_text(encoding="utf-8"))[1]
            taken_kb = int(re.search(r"VmData:\s+(\d+)", (doctor / "status").read_text(encoding="utf-8"))[1])
            self.assertIn("Verdict:", stream.read())
        self.assertEqual(process.wait(LIMIT_SECONDS), 1)
        if taken_kb >> 30:
            self.skipTest("a sanitizer's tables are larger than any limit")
        self.assertRegex(limit, r"^\d+$")
        self.assertTrue(2 * (64 << 20) <= int(limit) - (512 << 20) <= 2 * (16 << 30), limit)


class SignalsAndStatus(RunCase):
    WAITS = """
import signal, sys, time
caught = []
def handler(number, frame):
    caught.append(number)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, handler)
print("ready", flush=True)
deadline = time.monotonic() + 100
while not caught and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.3)
print(*caught)
sys.exit(9)
"""

    def test_the_exit_status_is_the_commands(self):
        for status in (0, 1, 2, 77, 255):
            self.assertEqual(self.run_it("--", "sh", "-c", f"exit {status}").returncode, status)

    def test_a_command_that_a_signal_killed_ends_with_128_and_its_number(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            result = self.run_it("--", "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$")
            self.assertEqual(result.returncode, 128 + number)

    def test_a_signal_sent_to_us_alone_is_passed_on_once(self):
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            with self.subTest(number):
                process = self.start("--", sys.executable, self.script(self.WAITS))
                self.assertEqual(process.stdout.readline(), "ready\n")
                process.send_signal(number)
                self.assertEqual(process.stdout.readline(), f"{int(number)}\n")
                self.assertEqual(process.wait(LIMIT_SECONDS), 9)

    def test_a_signal_sent_to_all_of_the_group_reaches_the_command_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                process = self.start("--", sys.executable, self.script(self.WAITS),
                                     start_new_session=True)
                self.assertEqual(process.stdout.readline(), "ready\n")
                os.killpg(process.pid, number)
                self.assertEqual(process.stdout.readline(), f"{int(number)}\n")
                self.assertEqual(process.wait(LIMIT_SECONDS), 9)

    def test_ctrl_c_at_a_terminal_reaches_the_command_once(self):
        script = self.script(self.WAITS)
        child, terminal = pty.fork()
        if child == 0:
            try:
                os.chdir(self.here)
                os.execve(run_case.PROGRAM, self.command("--", sys.executable, script), self.environment)
            finally:
                os._exit(99)
        seen = b""
        while b"ready" not in seen:
            seen += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        try:
            while True:
                piece = os.read(terminal, 1000)
                if not piece:
                    break
                seen += piece
        except OSError:
            pass  # the terminal is closed: everybody has gone
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 9, seen)
        self.assertRegex(seen.decode(), rf"\r\n(\^C)?{int(signal.SIGINT)}\r\n")

    def test_stopping_and_continuing_goes_for_both(self):
        process = self.start("--", sys.executable, self.script(self.WAITS),
                             preexec_fn=os.setpgrp)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTSTP)
        deadline = time.monotonic() + LIMIT_SECONDS
        state = ""
        while state != "T" and time.monotonic() < deadline:
            with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
            time.sleep(0.01)
        self.assertEqual(state, "T")
        process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), f"{int(signal.SIGTERM)}\n")
        self.assertEqual(process.wait(LIMIT_SECONDS), 9)

    def test_a_job_that_is_stopped_and_continued_alone_leaves_the_run_as_it_is(self):
        def state_of(process_id):
            with open(f"/proc/{process_id}/stat", encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0]

        process = self.start("--", sys.executable, self.script("import os\nprint(os.getpid(), flush=True)\n" + self.WAITS),
                             preexec_fn=os.setpgrp)
        job = int(process.stdout.readline())
        self.assertEqual(process.stdout.readline(), "ready\n")
        for stopping in (signal.SIGTSTP, signal.SIGSTOP):
            os.kill(job, stopping)
            deadline = time.monotonic() + LIMIT_SECONDS
            while state_of(job) != "T" and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertEqual(state_of(job), "T")
            time.sleep(0.2)  # it would stop now
            self.assertNotEqual(state_of(process.pid), "T", stopping)
            os.kill(job, signal.SIGCONT)
        os.kill(job, signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), f"{int(signal.SIGTERM)}\n")
        self.assertEqual(process.wait(LIMIT_SECONDS), 9)

    def test_signals_that_were_ignored_stay_so_for_the_command(self):
        result = subprocess.run(["sh", "-c", 'trap "" HUP USR1; exec "$@"', "sh", *self.command(
            "--", sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGHUP), "
            "signal.getsignal(signal.SIGTERM), signal.pthread_sigmask(signal.SIG_BLOCK, []))")],
            cwd=self.here, env=self.environment, text=True, capture_output=True, check=False,
            timeout=LIMIT_SECONDS)
        self.assertEqual(result.stdout.split()[:2], ["1", "0"] if sys.version_info >= (3, 11) else
                         ["Handlers.SIG_IGN", "Handlers.SIG_DFL"])
        self.assertTrue(result.stdout.endswith("set()\n"))

    def test_standard_input_and_output_are_the_commands(self):
        result = subprocess.run(self.command("--", "cat"), input="through\n", text=True,
                                cwd=self.here, env=self.environment, capture_output=True,
                                timeout=LIMIT_SECONDS, check=False)
        self.assertEqual(result.stdout, "through\n")


if __name__ == "__main__":
    run_case.main()
