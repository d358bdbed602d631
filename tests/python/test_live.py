"""vramwise.torch.publish() and vramwise.jobs(): a process that lets others see it, and who looks."""
import ctypes
import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from world import BUILD, ROOT  # noqa: E402

os.environ["VRAMWISE_LIBRARY_DIR"] = str(BUILD)
sys.path.insert(0, str(ROOT / "python"))
import vramwise  # noqa: E402

LIMIT_SECONDS = 100

# Publishes itself, and looks at itself until `is_there(job)`.
BEGIN = """
import os, sys, threading, time, torch, vramwise, vramwise.torch

def looked(is_there):
    while True:
        (job,) = vramwise.jobs()
        if is_there(job):
            return job
        time.sleep(0.002)

"""


class Publishing(unittest.TestCase):
    """In processes of their own, with the stand-in for torch that can be watched."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vramwise-test-")
        self.addCleanup(folder.cleanup)
        self.pages, runs = Path(folder.name) / "pages", Path(folder.name) / "runs"
        self.pages.mkdir()
        runs.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"], "VRAMWISE_LIBRARY_DIR": str(BUILD), "VRAMWISE_LIVE_MS": "2",
            "VRAMWISE_LIVE_DIR": str(self.pages), "XDG_RUNTIME_DIR": str(runs),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests/support/fake_torch_watch'}"}

    def run_python(self, code, *before, **environment):
        """What it printed; it ended well, and left no page."""
        done = subprocess.run([*before, sys.executable, "-c", BEGIN + code], text=True, check=False,
                              env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=LIMIT_SECONDS)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(list(self.pages.iterdir()), [])
        return done.stdout

    def test_a_program_shows_its_memory_its_steps_and_its_waiting(self):
        shown = json.loads(self.run_python("""
import json
from torch.utils.data import DataLoader
page = vramwise.torch.publish()
assert not torch.cuda.is_initialized()
before = vramwise.jobs()
torch._C.allocate(3 << 20)
optimizer = torch.optim.Optimizer()
for batch in DataLoader(range(4), num_workers=2):
    optimizer.step()
job = looked(lambda job: job["devices"] and job["devices"][0]["steps"] == 4)
print(json.dumps([page, before, job]))
"""))
        page, (before,), job = shown
        self.assertEqual((page, before["page"], before["devices"]), (job["page"], page, []))
        for seen in (before, job):
            self.assertEqual((seen["program"], seen["allocator"]), ("python", "pytorch"))
        (device,) = job["devices"]
        self.assertEqual((device["live_bytes"], device["loader_workers"]), (3 << 20, 2))
        self.assertLessEqual(0, device["input_wait_nanoseconds"])
        self.assertLessEqual(device["input_wait_nanoseconds"], device["step_nanoseconds"])
        self.assertEqual([step["step"] for step in device["step_log"]], [1, 2, 3, 4])

    def test_called_twice_or_after_cuda_started_it_is_the_same(self):
        self.assertEqual(self.run_python("""
torch._C.allocate(5)
first = vramwise.torch.publish()
print(first == vramwise.torch.publish(), len(vramwise.jobs()))
looked(lambda job: job["devices"] and job["devices"][0]["live_bytes"] == 5)
print([thread.name for thread in threading.enumerate()].count("vramwise-live"))
"""), "True 1\n1\n")

    def test_under_vramwise_run_it_is_done_already(self):
        self.assertEqual(self.run_python("""
print(vramwise.torch.publish() is not None)
torch._C.allocate(5)
looked(lambda job: job["devices"] and job["devices"][0]["live_bytes"] == 5)
print([thread.name for thread in threading.enumerate()].count("vramwise-live"))
""", str(BUILD / "vramwise"), "run", "--"), "True\n1\n")

    def test_a_child_that_starts_cuda_itself_has_a_page_of_its_own(self):
        self.assertEqual(self.run_python("""
vramwise.torch.publish()
child = os.fork()
if child == 0:
    torch._C.allocate(5)
    while not [job for job in vramwise.jobs() if job["process"] == os.getpid() and job["devices"]]:
        time.sleep(0.002)
    sys.exit(0)
print(os.waitpid(child, 0)[1], len(vramwise.jobs()))
"""), "0 1\n")

    def test_switched_off_there_is_no_page(self):
        for name, value in (("VRAMWISE_LIVE", "0"), ("VRAMWISE_DISABLE", "1")):
            self.assertEqual(self.run_python(
                "torch._C.allocate(1)\nprint(vramwise.torch.publish(), vramwise.jobs(), "
                "threading.active_count())", **{name: value}), "None no jobs 1\n")

    def test_where_there_is_no_room_that_is_an_error(self):
        shown = self.run_python("""
try:
    vramwise.torch.publish()
except vramwise.VramwiseError as error:
    print(error.status, "nowhere" in str(error))
""", VRAMWISE_LIVE_DIR="/nowhere")
        self.assertEqual(shown, "VW_ERR_FILE True\n")


class Switch(unittest.TestCase):
    """VRAMWISE_LIVE, VRAMWISE_DISABLE"""

    def test_the_package_and_the_library_agree(self):
        from vramwise._live import is_switched_off

        library = ctypes.CDLL(str(BUILD / "libvramwise.so"))
        library.vw_live_is_wanted.restype = ctypes.c_bool
        answers = []
        for live, disable in itertools.product((None, "", "0", "1", "no"), repeat=2):
            told = {name: value for name, value in (("VRAMWISE_LIVE", live), ("VRAMWISE_DISABLE", disable))
                    if value is not None}
            with unittest.mock.patch.dict(os.environ):
                for name in ("VRAMWISE_LIVE", "VRAMWISE_DISABLE"):
                    os.environ.pop(name, None)
                os.environ.update(told)
                self.assertEqual(is_switched_off(), not library.vw_live_is_wanted(), told)
                answers.append(is_switched_off())
        self.assertEqual((answers.count(True), answers.count(False)), (13, 12))


class Pace(unittest.TestCase):
    """VRAMWISE_LIVE_MS"""

    def test_a_number_that_is_none_is_the_usual_pace(self):
        from vramwise._live import tick_seconds

        for told, seconds in (("1", 0.001), ("250", 0.25), ("60000", 60.0), ("0", 1.0), ("-1", 1.0),
                              ("", 1.0), ("often", 1.0), ("60001", 1.0), ("9" * 5000, 1.0)):
            with unittest.mock.patch.dict(os.environ, VRAMWISE_LIVE_MS=told):
                self.assertEqual(tick_seconds(), seconds, told[:10])


class Jobs(unittest.TestCase):
    """vramwise.jobs()"""

    def test_no_jobs_are_none_and_no_folder_is_an_error(self):
        with tempfile.TemporaryDirectory(prefix="vramwise-test-") as folder:
            self.assertEqual(vramwise.jobs(folder), [])
            with self.assertRaisesRegex(vramwise.VramwiseError, "nowhere"):
                vramwise.jobs(Path(folder) / "nowhere")

    @staticmethod
    def made_up():
        """Two ranks, of which one grows, and a process without a GPU."""
        gib = 1 << 30
        calm = {"is_leak": False, "bytes_per_step": 0.0}
        grows = {"is_leak": True, "confidence": "high", "bytes_per_step": 64.0 * (1 << 20), "full_at_step": 1200}
        device = {"index": 0, "live_bytes": 6 * gib, "reserved_bytes": 8 * gib, "device_total_bytes": 80 * gib,
                  "device_free_bytes": 70 * gib, "steps": 300, "outlook": calm}
        job = {"state": "running", "process": 11, "rank": 0, "program": "train.py", "devices": [device]}
        return vramwise.Jobs([
            vramwise.Job(job),
            vramwise.Job({**job, "process": 12, "rank": 1, "devices": [{**device, "index": 1, "outlook": grows}]}),
            vramwise.Job({"state": "busy", "process": 1300, "rank": None, "program": "<b>.py", "devices": []})])

    def test_names_cannot_steer_a_terminal(self):
        job = vramwise.Job({"state": "running", "process": 11, "rank": None, "program": "a\033[2J\u202e\nb", "devices": []})
        self.assertIn("a?[2J??b", str(vramwise.Jobs([job])))

    def test_they_show_themselves_as_a_table(self):
        self.assertEqual(str(self.made_up()).splitlines(), [
            "process  rank  program   GPU      live  reserved  steps  memory",
            "     11     0  train.py    0  6.00 GiB  8.00 GiB    300",
            "     12     1  train.py    1  6.00 GiB  8.00 GiB    300  "
            "grows by 64.0 MiB a step, full at step 1,200",
            "   1300     -  <b>.py      -         -         -      -  busy"])
        self.assertEqual(str(vramwise.Jobs()), "no jobs")

    def test_in_a_notebook_they_are_a_picture(self):
        picture = self.made_up()._repr_html_()
        for words in ("3 jobs", "train.py, rank 1", "grows by 64.0 MiB a step", "others: 2.00 GiB", "&lt;b&gt;.py"):
            self.assertIn(words, picture)
        self.assertNotIn("<b>", picture)
        self.assertIn("0 jobs", vramwise.Jobs()._repr_html_())

    def test_they_are_a_list(self):
        jobs = self.made_up()
        self.assertEqual([job.process for job in jobs], [11, 12, 1300])
        self.assertEqual(jobs[1].devices[0].outlook.full_at_step, 1200)


if __name__ == "__main__":
    unittest.main()
