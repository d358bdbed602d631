"""vramwise.doctor(), vramwise.load(): findings as data; and vramwise.torch.record() and doctor() in a
process whose torch is a stand-in."""
import json
import lzma
import os
import pickle
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from world import BUILD, DATA, ROOT, World  # noqa: E402

os.environ["VRAMWISE_LIBRARY_DIR"] = str(BUILD)
sys.path.insert(0, str(ROOT / "python"))
import vramwise  # noqa: E402
from vramwise import _library, _recording  # noqa: E402

RECORDINGS = DATA / "recordings"
PHASES = RECORDINGS / "train_eval_phases.native.pickle.xz"
STREAMS = RECORDINGS / "streams.native.pickle.xz"
ERROR = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total "
         "capacity of 23.69 GiB of which 1.10 GiB is free. Process 1 has 22.50 GiB memory in use. Of "
         "the allocated memory 12.00 GiB is allocated by PyTorch, and 10.00 GiB is reserved by "
         "PyTorch but unallocated.")


class Doctor(unittest.TestCase):
    """vramwise.doctor()"""

    def test_an_error_as_text_becomes_data(self):
        found = vramwise.doctor(ERROR)
        self.assertEqual((found.verdict, found.confidence, found.source),
                         ("fragmentation", "high", "text"))
        self.assertEqual(found.numbers.tried_bytes, 3 << 30)
        self.assertEqual(found.findings[0].kind, "fragmentation")
        self.assertIn("expandable_segments:True", found.findings[0].remedies[0].how)
        self.assertIn("Verdict: fragmentation, high confidence", str(found))
        self.assertEqual(str(found), found.short)
        self.assertLessEqual(len(found.short.splitlines()), 24)
        self.assertIn("\n.text shows why", found.short)
        self.assertIn("\nWhy\n", found.text)
        self.assertEqual(found.data["verdict"], "fragmentation")

    def test_a_file_is_told_from_a_text(self):
        found = vramwise.doctor(PHASES)
        self.assertEqual((found.verdict, found.source), ("healthy", "recording"))
        self.assertEqual(vramwise.doctor(str(PHASES)).verdict, "healthy")
        self.assertEqual(vramwise.doctor(ERROR.encode()).verdict, "fragmentation")
        for name in ("no-such-file", "no such file.pickle", Path("no such file")):
            with self.assertRaisesRegex(vramwise.VramwiseError, "No such file") as caught:
                vramwise.doctor(name)
            self.assertEqual(caught.exception.status, "VW_ERR_FILE")
        pointing = "CUDA out of memory. Tried to allocate 2.00 GiB. All of it is in run.log"
        self.assertEqual(vramwise.doctor(pointing).verdict, "unknown")

    def test_a_text_may_have_halves_of_characters(self):
        for half in ("\ud800", "\udc80"):
            self.assertEqual(vramwise.doctor(f"{half} {ERROR} {half}").verdict, "fragmentation")
            self.assertEqual(vramwise.doctor(RuntimeError(f"{half} {ERROR}")).verdict, "fragmentation")

    def test_the_card_can_be_another(self):
        found = vramwise.doctor(PHASES, card="4GiB")
        self.assertEqual(found.numbers.total_bytes, 4 << 30)
        self.assertEqual(vramwise.doctor(PHASES, card=4 << 30).verdict, found.verdict)
        for card in (0, -1, 1.5, True):
            with self.assertRaisesRegex(ValueError, "^card: "):
                vramwise.doctor(ERROR, card=card)

    def test_a_card_without_its_unit_is_refused_as_the_program_does(self):
        words = "card: expected a size with a unit, such as 24GiB, not '24', which is in bytes"
        with vramwise.load(PHASES) as recording:
            for refused in (lambda: recording.tune("24"), lambda: recording.tune(24),
                            lambda: recording.replay(card="24"),
                            lambda: recording.plan(8, card="24"), lambda: recording.doctor(card="24")):
                with self.assertRaisesRegex(ValueError, words):
                    refused()
            with self.assertRaisesRegex(ValueError, "spill: expected a size with a unit"):
                recording.replay(spill="8")

    def test_what_is_no_error_is_refused(self):
        with vramwise.load(PHASES) as recording:
            for wrong in (123, ["CUDA out of memory"], recording):
                with self.assertRaisesRegex(TypeError, "expected a file, a text or an exception, not "
                                            + type(wrong).__name__):
                    vramwise.doctor(wrong)

    def test_an_exception_is_taken_with_its_traceback(self):
        def train_step():
            raise RuntimeError(ERROR.splitlines()[0])
        try:
            train_step()
        except RuntimeError as error:
            found = vramwise.doctor(error)
        self.assertEqual((found.verdict, found.source), ("fragmentation", "text"))
        self.assertEqual((found.failed_at.function, found.failed_at.code),
                         ("train_step", "raise RuntimeError(ERROR.splitlines()[0])"))
        self.assertTrue(found.failed_at.file.endswith("test_recordings.py"))
        self.assertEqual(vramwise.doctor(KeyError("model")).verdict, "not-oom")
        try:
            try:
                raise RuntimeError("CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity "
                                   + ERROR.split("total capacity ")[1].splitlines()[0])
            except RuntimeError as error:
                raise ValueError("the step failed") from error
        except ValueError as error:  # the program's line quotes a part of the message
            self.assertEqual(vramwise.doctor(error).verdict, "fragmentation")

    def test_in_a_session_the_last_error_is_meant(self):
        self.addCleanup(vars(sys).pop, "last_value", None)
        with self.assertRaisesRegex(ValueError, "no error has been shown"):
            vramwise.doctor()
        sys.last_value = RuntimeError(ERROR.splitlines()[0])
        self.assertEqual(vramwise.doctor().verdict, "fragmentation")

    def test_earlier_names_still_work(self):
        with self.assertWarns(DeprecationWarning):
            self.assertEqual(vramwise.doctor(path_or_text=ERROR).verdict, "fragmentation")

    def test_a_card_may_be_given_by_its_name(self):
        t4 = vramwise.doctor(PHASES, card="NVIDIA Tesla T4").numbers.total_bytes
        self.assertEqual(t4, 1456 * 2**30 // 100)
        with vramwise.load(PHASES) as recording:
            context = vramwise._library.analysis().vw_plan_card_context_bytes()  # of a whole card
            self.assertEqual(recording.tune("t4")["card_bytes"], t4 - context)
            self.assertEqual(recording.tune("14GiB")["card_bytes"], 14 * 2**30)
            self.assertEqual(recording.replay("native", card="T4")["results"][0]["card_bytes"], t4)
        for card in ("many", "0", ""):
            with self.assertRaisesRegex(ValueError, "card: expected a size such as 24GiB or a card"):
                vramwise.doctor(ERROR, card=card)


class Recording(unittest.TestCase):
    """vramwise.load()"""

    def test_it_says_what_is_in_it(self):
        with vramwise.load(PHASES) as recording:
            self.assertEqual((recording.events, recording.devices, recording.conf), (33576, (0,), ""))
            self.assertEqual(recording.peak_live_bytes, 5248432128)
            self.assertEqual(recording.peak_reserved_bytes, 11825840128)
            self.assertEqual(recording.stats()["devices"][0]["steps"], 12)
            self.assertIn("33576 events", repr(recording))

    def test_verify_replay_tune_diff_and_doctor_are_the_programs(self):
        with vramwise.load(PHASES) as recording:
            self.assertTrue(recording.verify()["exact"])
            replayed = recording.replay(["native", "vramwise"], conf="expandable_segments:True")
            self.assertEqual([run["policy"] for run in replayed["results"]],
                             ["native", "vramwise", "conf"])
            emptied = recording.replay("native", empty_cache=2)
            self.assertEqual(emptied["results"][0]["trims"], 6)
            small = recording.replay("native", card="6GiB", smallest_card=True)["results"][0]
            self.assertEqual((small["card_bytes"], small["completed"]), (6 << 30, True))
            self.assertIsNotNone(small["smallest_card_bytes"])
            spilled = recording.replay(card="4GiB", spill="8GiB")
            self.assertEqual((spilled["spill_bytes"], len(spilled["results"])), (8 << 30, 1))
            self.assertTrue(spilled["results"][0]["completed"])
            self.assertGreater(spilled["results"][0]["step_cost_us"], 0)
            streamed = recording.replay(card="4GiB", spill="8GiB", stream=True)
            self.assertEqual((spilled.stream, streamed.stream), (False, True))
            self.assertGreater(streamed.results[0].stream_state_bytes, 0)
            with self.assertRaisesRegex(ValueError, "stream=True needs spill=SIZE"):
                recording.replay(stream=True)
            self.assertTrue(recording.tune("6GiB")["fits"])
            same = recording.diff(recording)
            self.assertEqual((same["same"], same["changes"], same["renames"]), (True, [], []))
            self.assertTrue(recording.diff(Path(PHASES)).same)
            self.assertEqual(recording.diff(str(STREAMS)), recording.diff(vramwise.load(STREAMS)))
            self.assertEqual(recording.doctor().verdict, "healthy")

    def test_a_device_that_c_has_no_room_for_is_refused(self):
        with vramwise.load(PHASES) as recording:
            for ask in (lambda device: recording.replay("native", device=device),
                        lambda device: recording.tune("24GiB", device=device),
                        lambda device: recording.plan(8, device=device)):
                for device in (2**32, -2**32, 2**64, True, "0"):
                    with self.assertRaisesRegex(ValueError, "device is the number of a device"):
                        ask(device)
            with self.assertRaisesRegex(ValueError, "a zero byte"):
                recording.replay("native\0x")

    def test_check_is_the_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            baseline = Path(folder, "main.json")
            with vramwise.load(PHASES) as recording:
                recording.write_baseline(baseline)
                same = recording.check(baseline)
            self.assertEqual((same["worse"], same["sites"], same["policy"]), (False, [], "native"))
            self.assertEqual(same["baseline"], str(baseline))
            other = json.loads(baseline.read_text(encoding="utf-8"))
            other["peak_live_bytes"] -= other["peak_live_bytes"] // 100
            baseline.write_text(json.dumps(other), encoding="utf-8")
            self.assertTrue(vramwise.check(PHASES, baseline)["worse"])
            self.assertFalse(vramwise.check(PHASES.read_bytes(), baseline, max_growth="2%")["worse"])
            self.assertTrue(vramwise.check(str(PHASES), str(baseline), max_growth="2%,peak=0")["worse"])
            with self.assertRaisesRegex(ValueError, "max_growth: expected a growth such as 2%"):
                vramwise.check(PHASES, baseline, max_growth="2")
            with self.assertRaisesRegex(vramwise.VramwiseError, "no.json: No such file"):
                vramwise.check(PHASES, Path(folder, "no.json"))
            with self.assertRaisesRegex(vramwise.VramwiseError, "expected a whole baseline"):
                vramwise.check(PHASES, PHASES)

    def test_bytes_are_a_recording_too(self):
        self.assertEqual(vramwise.load(PHASES.read_bytes()).events, 33576)

    def test_errors_say_what_the_library_says(self):
        with self.assertRaisesRegex(vramwise.VramwiseError, "a pickle") as caught:
            vramwise.load(b"garbage")
        self.assertEqual(caught.exception.status, "VW_ERR_CORRUPT_FILE")
        recording = vramwise.load(PHASES)
        with self.assertRaisesRegex(vramwise.VramwiseError, "unknown policy"):
            recording.replay("none")
        with self.assertRaisesRegex(ValueError, "empty_cache is one of"):
            recording.replay(empty_cache="often")
        recording.close()
        recording.close()
        with self.assertRaisesRegex(vramwise.VramwiseError, "was closed"):
            recording.stats()

    def test_closing_waits_for_what_other_threads_do(self):
        recording, made_by = vramwise.load(PHASES), _library.made_by
        expected, closed = str(recording.stats()), []

        class Noting(_recording._Handle):
            __slots__ = ()

            def __del__(self):
                closed.append(True)
                super().__del__()

        def close_first(function, *arguments):
            recording.close()  # as another thread would, between the look at the handle and the call
            self.assertEqual(closed, [])
            return made_by(function, *arguments)
        recording._handle.__class__ = Noting
        with unittest.mock.patch.object(_library, "made_by", close_first):
            self.assertEqual(str(recording.stats()), expected)
        self.assertEqual(closed, [True])

    def test_a_file_that_cannot_be_read_is_named_once(self):
        with tempfile.TemporaryDirectory() as folder:
            cut = Path(folder, "cut.pickle")
            cut.write_bytes(lzma.decompress(PHASES.read_bytes())[:5000])
            for wrong in (cut, Path(folder, "none.pickle")):
                for read in (vramwise.load, vramwise.doctor):
                    with self.assertRaises(vramwise.VramwiseError) as caught:
                        read(wrong)
                    self.assertTrue(str(caught.exception).startswith(f"{wrong}: "))
                    self.assertEqual(str(caught.exception).count(str(wrong)), 1)
        with self.assertRaisesRegex(ValueError, "a zero byte"):
            vramwise.load(f"{PHASES}\0.pickle")

    def test_the_version_is_the_librarys(self):
        text = (ROOT / "include/vramwise/version.h").read_text()
        self.assertIn(f'"{vramwise.__version__}"', text)
        with self.assertRaises(AttributeError):
            vramwise.no_such_name


class InTheProcess(unittest.TestCase):
    """vramwise.torch.record() and doctor()"""

    @classmethod
    def setUpClass(cls):
        cls.world = World()

    @classmethod
    def tearDownClass(cls):
        cls.world.close()

    def run_recorded(self, body, arguments="'run.pickle'", before="", **environment):
        """Runs the body in a recorded block; the calls of _record_memory_history."""
        shown, errors = self.world.run(f"""
import json, vramwise.torch, torch
{before}
try:
    with vramwise.torch.record({arguments}):
        {body}
except (KeyError, ValueError, vramwise.VramwiseError) as error:
    print(type(error).__name__, error)
print(json.dumps(torch.cuda.memory.history["calls"]))
""", **environment)
        lines = shown.splitlines()
        return json.loads(lines[-1]), lines[:-1], errors

    def test_a_block_is_recorded_whole_and_the_history_ends(self):
        calls, _, _ = self.run_recorded("pass")
        self.assertEqual(calls[0], {"enabled": "all", "context": "all", "stacks": "python",
                                    "max_entries": sys.maxsize, "clear_history": True})
        self.assertIsNone(calls[1]["enabled"])
        self.assertEqual(vramwise.load(self.world.path / "run.pickle").events, 2)
        self.assertEqual(list(self.world.path.glob("*.part")), [])

    def test_only_the_user_can_read_a_recording(self):
        self.run_recorded("pass", before="import os; os.umask(0)")
        self.assertEqual((self.world.path / "run.pickle").stat().st_mode & 0o777, 0o600)

    def test_links_at_the_names_of_a_recording_are_not_followed(self):
        victim, recording = self.world.path / "victim", self.world.path / "run.pickle"
        recording.unlink(missing_ok=True)
        victim.write_bytes(b"precious")
        _, shown, _ = self.run_recorded("pass", before="""
import os, threading
os.symlink("victim", "run.pickle")
os.symlink("victim", f"run.pickle.{os.getpid()}.{threading.get_ident()}.part")""")
        self.assertEqual((shown, victim.read_bytes()), ([], b"precious"))
        self.assertFalse(recording.is_symlink())
        self.assertEqual(vramwise.load(recording).events, 2)
        for link in self.world.path.glob("run.pickle.*.part"):
            link.unlink()

    def test_a_recording_that_cannot_be_written_leaves_no_part(self):
        before = sorted(path.name for path in self.world.path.iterdir())
        _, shown, _ = self.run_recorded("pass", "'full.pickle'", before="""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))""")
        self.assertEqual(shown, ["VramwiseError full.pickle: the recording was not written: [Errno 27]"
                                 " File too large"])
        self.assertEqual(sorted(path.name for path in self.world.path.iterdir()), before)

    def test_a_pipe_or_a_device_is_refused_before_the_block(self):
        os.mkfifo(self.world.path / "pipe")
        (self.world.path / "link").symlink_to("pipe")
        for name in ("pipe", "link", "."):
            calls, shown, _ = self.run_recorded("print('ran')", repr(name))
            self.assertEqual((calls, shown), (
                [], [f"VramwiseError {name}: expected a regular file"]))
        self.assertTrue((self.world.path / "pipe").is_fifo())

    def test_settings_reach_pytorch(self):
        calls, _, _ = self.run_recorded("pass", "'run.pickle', max_entries=7, stacks='none'")
        self.assertEqual((calls[0]["max_entries"], calls[0]["context"]), (7, None))
        for arguments in ("'x', stacks='some'", "'x', max_entries=0"):
            calls, shown, _ = self.run_recorded("pass", arguments)
            self.assertEqual(calls, [])
            self.assertTrue(shown[0].startswith("ValueError "), shown)

    def test_an_exception_passes_and_the_recording_is_there(self):
        (self.world.path / "run.pickle").unlink(missing_ok=True)
        _, shown, _ = self.run_recorded("raise KeyError('mine')")
        self.assertEqual(shown, ["KeyError 'mine'"])
        self.assertEqual(vramwise.load(self.world.path / "run.pickle").events, 2)

    def test_a_history_that_was_on_goes_on_bounded(self):
        calls, _, _ = self.run_recorded("pass", before="torch.cuda.memory._record_memory_history()")
        self.assertEqual((calls[2]["enabled"], calls[2]["max_entries"]), ("all", 100_000))

    def test_what_cannot_be_written_is_an_error_but_hides_none(self):
        break_it = "torch.cuda.memory._snapshot = lambda: 1 / 0"
        calls, shown, _ = self.run_recorded(break_it)
        self.assertEqual(shown, ["VramwiseError run.pickle: the recording was not written: division "
                                 "by zero"])
        self.assertIsNone(calls[-1]["enabled"])
        _, shown, errors = self.run_recorded(break_it + "; raise KeyError('mine')")
        self.assertEqual(shown, ["KeyError 'mine'"])
        self.assertEqual(errors, "vramwise: run.pickle: the recording was not written: division by "
                                 "zero")
        calls, shown, _ = self.run_recorded("pass", "'/no/such/folder/run.pickle'")
        self.assertEqual((calls, "cannot write to the folder" in shown[0]), ([], True))

    def test_disabled_records_nothing(self):
        calls, _, _ = self.run_recorded("print('ran')", "'nothing.pickle'", VRAMWISE_DISABLE="1")
        self.assertEqual(calls, [])
        self.assertFalse((self.world.path / "nothing.pickle").exists())

    def test_without_a_gpu_the_block_runs_and_a_line_says_so(self):
        calls, shown, errors = self.run_recorded("print('ran')", "'nothing.pickle'",
                                                 FAKE_TORCH_DEVICES="0")
        self.assertEqual((calls, shown), ([], ["ran"]))
        self.assertEqual(errors, "vramwise: nothing is recorded: there is no GPU here")

    def test_an_allocator_without_history_is_an_error(self):
        _, shown, _ = self.run_recorded("print('ran')", before="""
def refuse(enabled, **_): raise RuntimeError("does not yet support recordHistory.")
torch.cuda.memory._record_memory_history = refuse""")
        self.assertEqual(shown, ["VramwiseError nothing can be recorded: does not yet support "
                                 "recordHistory."])

    def test_the_doctor_looks_at_this_process_from_another(self):
        shown, _ = self.world.run("""
            import vramwise.torch, torch
            try: vramwise.torch.doctor()
            except vramwise.VramwiseError as error: print(error)
            torch.cuda.state["initialized"] = True
            found = vramwise.torch.doctor()
            print(found.verdict, found.source, found.findings[0].where[0])
            print("from a recording: this process" in str(found), any(
                  "libvramwise-analysis" in line for line in open("/proc/self/maps")))
            torch.cuda.memory.given = 1
            try: vramwise.torch.doctor()
            except vramwise.VramwiseError as error: print(error)
            """)
        self.assertEqual(shown.splitlines(), [
            "CUDA has not been started in this process: there is nothing to see",
            "healthy recording train.py:3 main", "True False",
            "no snapshot: CUDAPluggableAllocator does not yet support snapshot. If you need it,"])

    def test_safe_points_nest_and_do_nothing_without_our_allocator(self):
        shown, _ = self.world.run("""
            import ctypes, vramwise.torch
            from vramwise import _library
            def count(name):
                return ctypes.c_int.in_dll(_library.load("vramwise-torch"), name).value
            with vramwise.torch.safe_point(): pass
            print(count("fake_deepest"))
            vramwise.torch.install(fallback="plain")
            try:
                with vramwise.torch.safe_point(), vramwise.torch.safe_point(): raise KeyError
            except KeyError: print(count("fake_depth"), count("fake_deepest"))
            """, FAKE_TORCH_VERSION="2.10.0")
        self.assertEqual(shown, "0\n0 2")

    def test_what_is_written_is_pytorchs_own_snapshot(self):
        self.run_recorded("pass")
        with open(self.world.path / "run.pickle", "rb") as file:
            self.assertEqual(sorted(pickle.load(file)), ["device_traces", "segments"])


if __name__ == "__main__":
    unittest.main()
