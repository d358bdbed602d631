#!/usr/bin/env python3
"""test_run_entering.py PROGRAM [unittest arguments] - which processes `vramwise run` gets into,
and which it leaves alone. See run_case.py.
"""
import os
import subprocess
import sys
import time
import venv

import run_case
from run_case import FAILS, FAKE_TORCH, LIMIT_SECONDS, RunCase


class Entering(RunCase):
    def test_modules_and_code_on_the_command_line_are_entered_too(self):
        package = self.here / "trainer"
        package.mkdir()
        (package / "__main__.py").write_text(FAILS, encoding="utf-8")
        result = self.run_it("--", sys.executable, "-m", "trainer")
        self.assertEqual(len(self.files("vramwise-oom-trainer-*.pickle")), 1, result.stderr)
        self.run_it("--", sys.executable, "-c", FAILS)
        self.assertEqual(len(self.files("vramwise-oom-python-*.pickle")), 1)

    def test_a_program_started_by_a_shell_or_by_a_program_is_entered(self):
        script = self.script(FAILS)
        self.run_it("--", "sh", "-c", f"true; {sys.executable} {script}; exit 7")
        outer = self.script(f"import subprocess, sys\n"
                            f"sys.exit(subprocess.call([sys.executable, {script!r}]))", "outer.py")
        result = self.run_it("--", sys.executable, outer)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(self.files("vramwise-oom-train-*.pickle")), 2)

    def test_the_sitecustomize_that_was_there_runs_as_before(self):
        other = self.folder / "other"
        other.mkdir()
        (other / "sitecustomize.py").write_text("import sys\nsys.was_here = __file__\n",
                                                encoding="utf-8")
        result = self.run_python(
            "import sys, sitecustomize\nprint(sys.was_here == sitecustomize.__file__)\n"
            "print(any('_start' in entry for entry in sys.path))\n" + FAILS,
            PYTHONPATH=f"{FAKE_TORCH}:{other}")
        self.assertEqual(result.stdout, "True\nFalse\n")
        self.assertIn("Verdict:", result.stderr)

    def test_a_sitecustomize_that_fails_fails_as_before(self):
        other = self.folder / "other"
        other.mkdir()
        (other / "sitecustomize.py").write_text("raise KeyError('mine')\n", encoding="utf-8")
        result = self.run_python("print('on')", PYTHONPATH=f"{FAKE_TORCH}:{other}")
        self.assertEqual((result.returncode, result.stdout), (0, "on\n"))
        self.assertIn("Error in sitecustomize", result.stderr)
        self.assertIn("KeyError: 'mine'", result.stderr)

    def test_a_torch_that_a_pth_file_imports_before_us_is_watched(self):
        venv.create(self.folder / "venv", symlinks=True)
        (packages,) = self.folder.glob("venv/lib/python3*/site-packages")
        (packages / "early.pth").write_text("import torch\n", encoding="utf-8")
        result = self.run_it("--", str(self.folder / "venv/bin/python"), self.script(FAILS))
        self.assertEqual(result.stderr.count("Verdict:"), 1, result.stderr)

    def test_a_module_that_is_only_called_torch_is_one_line(self):
        (self.here / "torch.py").write_text("x = 1\n", encoding="utf-8")
        result = self.run_python("import torch\nprint(torch.x)\n", PYTHONPATH="")
        self.assertEqual((result.returncode, result.stdout), (0, "1\n"))
        self.assertRegex(result.stderr, r"^vramwise: \S+/torch.py is not PyTorch, [^\n]+\n$")

    def test_what_goes_wrong_in_entering_ends_no_program_that_has_no_standard_error(self):
        script = self.script("import os\nos.register_at_fork = None\nimport torch\nprint('goes on')\n")
        result = self.run_it("--", sys.executable, script)
        self.assertRegex(result.stderr, r"^vramwise: this program is not watched: TypeError: [^\n]+\n$")
        for nowhere in ("2>&-", "2>/dev/full"):
            result = self.run_it("--", "sh", "-c", f'exec "$0" "$1" {nowhere}', sys.executable, script)
            self.assertEqual((result.returncode, result.stdout), (0, "goes on\n"), nowhere)

    def test_an_error_that_cannot_be_put_into_words_ends_no_program(self):
        result = self.run_python("import os\nclass Mute(Exception):\n"
                                 "    def __str__(self):\n        raise ValueError\n"
                                 "def fails(**_):\n    raise Mute\n"
                                 "os.register_at_fork = fails\nimport torch\nprint('goes on')\n")
        self.assertEqual((result.returncode, result.stdout), (0, "goes on\n"), result.stderr)

    def test_a_tool_of_python_2_runs_as_before(self):
        if subprocess.run("python2.7 -c 1 2>&1", shell=True, check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("there is no Python 2.7 here")
        (self.here / "sitecustomize.py").write_text("import sys\nsys.was_here = True\n",
                                                    encoding="utf-8")
        for path, found in (("", False), (str(self.here), True)):
            result = self.run_it("--", "python2.7", "-c", "import json, sys\n"
                                 "print(hasattr(sys, 'was_here'))\n", PYTHONPATH=path)
            self.assertEqual((result.stdout, result.stderr), (f"{found}\n", ""))

    def test_looking_for_torch_before_importing_it_makes_no_difference(self):
        result = self.run_python("from importlib import util\nassert util.find_spec('torch')\n"
                                 "assert util.find_spec('no_such_module') is None\n" + FAILS)
        self.assertIn("Verdict:", result.stderr)

    def test_torch_looks_as_if_nobody_had_been_there(self):
        result = self.run_python(
            "import sys, torch\nprint(type(torch.__loader__).__name__,"
            " type(torch.__spec__.loader).__name__, 'vramwise' in sys.modules,"
            " [type(each).__name__ for each in sys.meta_path if 'Wait' in type(each).__name__])\n")
        self.assertEqual(result.stdout, "SourceFileLoader SourceFileLoader False []\n")

    def test_a_program_without_torch_is_left_as_it_was(self):
        result = self.run_python(
            "import sys\nprint('socket' in sys.modules, '_vramwise_watch' in sys.modules)\n"
            "class Nowhere:\n"  # this machine may have a real one
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name == 'torch': raise ModuleNotFoundError(name)\n"
            "sys.meta_path.insert(1, Nowhere())\n"
            "try:\n    import torch\nexcept ImportError:\n    print('none')\n", PYTHONPATH="")
        self.assertEqual((result.stdout, result.stderr), ("False False\nnone\n", ""))

    def test_python_that_cannot_be_entered_is_said_once(self):
        for option in ("-I", "-E", "-S", "-sE"):
            with self.subTest(option):
                result = self.run_it("--", sys.executable, option, "-c", "print(1)")
                self.assertEqual((result.returncode, result.stdout), (0, "1\n"))
                self.assertEqual(result.stderr.count("vramwise: the program is not watched"), 1)
                self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_it_is_also_seen_behind_a_scripts_first_line(self):
        python = os.path.realpath(sys.executable)
        for line in (f"#!{python} -I", f"#!/usr/bin/env -S {python} -I"):
            with self.subTest(line):
                script = self.here / "tool"
                script.write_text(f"{line}\nprint(1)\n", encoding="utf-8")
                script.chmod(0o755)
                result = self.run_it("--", str(script))
                self.assertIn("the program is not watched: 'python -I' ignores", result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1)
                self.assertEqual(result.stdout, "1\n")

    def test_what_is_not_python_gives_no_false_alarm(self):
        result = self.run_it("--", "sh", "-c", "echo -I; exit 3", "-I")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (3, "-I\n", ""))

    def test_a_python_that_only_tells_its_version_gives_no_false_alarm(self):
        self.assertEqual(self.run_it("--", sys.executable, "--version").stderr, "")

    def test_a_python_whose_environment_was_cleared_is_said(self):
        result = self.run_it("--", sys.executable, "-c", "import os, sys; os.environ.clear(); "
                             "os.execv(sys.executable, [sys.executable, '-c', '1'])")
        self.assertEqual((result.returncode, result.stderr), (0, ""))  # it was entered, at first
        result = self.run_it("--", "env", "-u", "PYTHONPATH", sys.executable, "-c",
                             "import time; time.sleep(0.8)")
        self.assertIn("the program was not watched", result.stderr)

    def test_disabled_there_is_nothing_of_ours(self):
        result = self.run_python("import os\nprint('VRAMWISE_RUN' in os.environ)\n" + FAILS,
                                 "--record", "x.pickle", VRAMWISE_DISABLE="1")
        self.assertEqual((result.returncode, result.stdout), (1, "False\n"))
        self.assertNotIn("vramwise:", result.stderr)
        self.assertEqual(self.files("*"), ["train.py"])
        self.assertEqual(self.log_lines("observer"), [])

    def test_disabled_inside_a_run_the_hook_does_nothing(self):
        self.run_it("--", "env", "VRAMWISE_DISABLE=1", sys.executable, self.script(FAILS))
        self.assertEqual(self.log_lines("observer"), [])
        self.assertEqual(self.files("*"), ["train.py"])

    def test_a_run_inside_a_run_reports_once(self):
        result = self.run_it("--record", "outer.pickle", "--", run_case.PROGRAM, "run", "--",
                             sys.executable, self.script(FAILS))
        self.assertEqual(result.stderr.count("Verdict:"), 1)
        self.assertEqual(self.files("outer*"), [])


class Processes(RunCase):
    def test_ranks_are_in_the_names_and_one_of_them_is_diagnosed(self):
        script = self.script(FAILS)
        result = self.run_it("--", "sh", "-c", "for rank in 0 1 2; do RANK=$rank "
                             f"{sys.executable} {script} & done; wait")
        self.assertEqual(len(self.files("vramwise-oom-train-*-rank?.pickle")), 3)
        self.assertEqual(result.stderr.count("Verdict:"), 1)
        self.assertEqual(result.stderr.count("ran out as well: vramwise-oom-train-"), 2)

    def test_a_rank_that_runs_out_after_the_report_is_named_at_the_end(self):
        self.environment["VRAMWISE_RUN_REPORT_SECONDS"] = "0"
        python = f"{sys.executable} {self.script(FAILS)}"
        process = self.start("--", "sh", "-c", f"RANK=0 {python}; while [ ! -e go ]; do sleep 0.05; "
                             f"done; RANK=1 {python}")
        self.read_verdict(process)
        (self.here / "go").touch()
        rest = process.stderr.read()
        self.assertEqual(process.wait(LIMIT_SECONDS), 1)
        (late,) = self.files("vramwise-oom-train-*-rank1.pickle")
        self.assertEqual(rest.count(f"(rank 1) ran out as well: {late}\n"), 1, rest)
        self.assertRegex(rest, r"the snapshot is vramwise-oom-train-\d+-rank0\.pickle\n")
        self.assertNotIn("Verdict:", rest)

    def test_workers_that_are_forked_before_cuda_starts_are_watched(self):
        result = self.run_python("import os, torch\nchild = os.fork()\nif child == 0:\n"
                                 "    torch._C.allocate(9 << 30)\nos.waitpid(child, 0)\n")
        self.assertEqual(result.stderr.count("Verdict:"), 1)

    def test_a_fork_after_cuda_started_is_left_alone(self):
        result = self.run_python(
            "import os, sys, torch\ntorch._C.allocate(1)\nchild = os.fork()\nif child == 0:\n"
            "    try:\n        torch.cuda._lazy_init()\n"
            "    except RuntimeError as error:\n        print(error, flush=True)\n"
            "    sys.exit(0)\nos.waitpid(child, 0)\n", "--record", "run.pickle")
        self.assertEqual(result.stdout, "Cannot re-initialize CUDA in forked subprocess.\n")
        self.assertEqual(self.files("*.pickle"), ["run.pickle"])
        self.assertEqual(len(self.log_lines("snapshot")), 1)
        self.assertEqual(result.stderr, "vramwise: recorded run.pickle\n")

    def test_processes_of_multiprocessing_write_their_recordings(self):
        for method in ("spawn", "fork"):
            with self.subTest(method):
                self.run_python(
                    "import multiprocessing\ndef work(number):\n    import torch\n"
                    "    torch._C.allocate(number)\nif __name__ == '__main__':\n"
                    f"    context = multiprocessing.get_context('{method}')\n"
                    "    workers = [context.Process(target=work, args=(n,)) for n in (1, 2)]\n"
                    "    [worker.start() for worker in workers]\n"
                    "    [worker.join() for worker in workers]\n", "--record", f"{method}.pickle")
                self.assertEqual(len(self.files(f"{method}*.pickle")), 2)


if __name__ == "__main__":
    run_case.main()
