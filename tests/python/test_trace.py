"""Traces without PyTorch: what is written down, and what is refused before torch is needed.

What the tracer does with PyTorch itself is tried by `make test-traced`, beside a real one.
"""
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from vramwise import _trace  # noqa: E402
from vramwise.torch import _plan, _tracer, _tracer_rules  # noqa: E402


class List(unittest.TestCase):
    def test_events_have_slots_in_order_and_stacks_once(self) -> None:
        requests = _tracer.Requests()
        stack = requests.stack([("train.py", 8, "step"), ("train.py", 2, "main")])
        self.assertEqual(requests.stack([("train.py", 8, "step"), ("train.py", 2, "main")]), stack)
        requests.begin_step()
        first, second = requests.alloc(100, stack), requests.alloc(50, stack)
        requests.free(first, 100)
        requests.hidden("sum", (1, 64, 32), stack)
        requests.end_step()
        requests.note("twice")
        requests.note("twice")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            requests.write(path, torch="2.6")
            written = json.loads(Path(path).read_text(encoding="utf-8"))
        self.assertEqual((first, second), (0, 1))
        self.assertEqual((requests.live_bytes, requests.peak_bytes), (50, 150))
        self.assertEqual(written["vramwise_trace"], 2)
        self.assertEqual(written["stacks"], [[0, 1]])
        self.assertEqual(written["frames"], [["train.py", 8, "step"], ["train.py", 2, "main"]])
        self.assertEqual(written["notes"], [{"text": "twice", "times": 2}])
        self.assertEqual(written["events"], [[3, "ProfilerStep#0"], [0, 0, 100, 0], [0, 1, 50, 0],
                                             [1, 0], [2, "sum", 1, 64, 32, 0],
                                             [4, "ProfilerStep#0"]])

    def test_frames_are_the_programs_innermost_first(self) -> None:
        frames = _tracer.frames_of(sys._getframe())
        self.assertEqual(frames[0][2], "test_frames_are_the_programs_innermost_first")
        self.assertFalse(any("vramwise/torch" in frame[0] for frame in frames))


class Cards(unittest.TestCase):
    def test_a_stated_card(self) -> None:
        card = _tracer_rules.stated_card("rtx4090 89 25254407700")
        self.assertEqual((card.name, card.capability, card.total_bytes),
                         ("rtx4090", (8, 9), 25254407700))
        self.assertTrue(card.has_flash)
        self.assertFalse(_tracer_rules.stated_card("t4 75 15636037632").has_flash)

    def test_what_is_not_stated_is_the_usual_card(self) -> None:
        self.assertEqual(_tracer_rules.stated_card(None), _tracer_rules.Card())
        self.assertEqual(_tracer_rules.stated_card("- 0 0"), _tracer_rules.Card())


class Sizes(unittest.TestCase):
    def test_the_size_that_is_asked_for_comes_twice_then_what_shows_growth(self) -> None:
        self.assertEqual(_plan._sizes(8, None, 0), [(8, 0)] * 2)
        self.assertEqual(_plan._sizes(8, None, 1), [(8, 0), (8, 0), (16, 0)])
        self.assertEqual(_plan._sizes(8, 512, 2),
                         [(8, 512), (8, 512), (16, 512), (8, 256), (16, 256)])

    def test_a_link_that_others_have_planted_is_not_followed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kept, path = Path(folder, "kept"), Path(folder, "trace.json")
            kept.write_text("kept", encoding="utf-8")
            path.symlink_to(kept)
            _tracer.Requests().write(path, torch="2.6")
            self.assertEqual(kept.read_text(encoding="utf-8"), "kept")
            self.assertFalse(path.is_symlink())
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            self.assertEqual(json.loads(path.read_text(encoding="utf-8"))["torch"], "2.6")
            self.assertEqual(sorted(os.listdir(folder)), ["kept", "trace.json"])
            with self.assertRaisesRegex(OSError, "expected a regular file"):
                _tracer.Requests().write("/dev/null")

    def test_factories_say_which_sizes_they_take(self) -> None:
        self.assertEqual(_plan._parameters_of(lambda: 0), 0)
        self.assertEqual(_plan._parameters_of(lambda batch: 0), 1)
        self.assertEqual(_plan._parameters_of(lambda batch, length, device="cuda": 0), 2)

    def test_a_share_is_from_0_to_1(self) -> None:
        with self.assertRaisesRegex(ValueError, "from 0 to 1, not 2"):
            _tracer_rules.Policy(2)
        self.assertEqual(_tracer_rules.Policy(0.25).count(10), 3)


class Scripts(unittest.TestCase):
    def refused(self, *words: str) -> str:
        shown = io.StringIO()
        with redirect_stderr(shown), self.assertRaises(SystemExit) as ended:
            _trace.main(list(words))
        self.assertEqual(ended.exception.code, 2)
        return shown.getvalue()

    def test_wrong_use_is_refused(self) -> None:
        self.assertIn("no such file", self.refused("missing.py", "out.json"))
        self.assertIn("at least 1, not 0", self.refused("--steps", "0", __file__, "out.json"))

    def test_without_pytorch_it_says_so(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "torch.py").write_text("raise ImportError('none here')\n", encoding="utf-8")
            Path(folder, "train.py").write_text("", encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-m", "vramwise._trace", "train.py", "out.json"], cwd=folder,
                capture_output=True, text=True, check=False,
                env=dict(os.environ, PYTHONPATH=os.pathsep.join(
                    [folder, str(Path(_trace.__file__).resolve().parents[1])])))
        self.assertEqual(done.returncode, 3)
        self.assertIn("tracing needs PyTorch: none here", done.stderr)

    def test_the_line_of_the_program_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "train.py")
            script.write_text("def step():\n    raise KeyError(1)  # here\n", encoding="utf-8")
            names: dict = {}
            exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), names)
            try:
                names["step"]()
            except KeyError as error:
                place = _trace.place_of(error, "train.py")
            self.assertTrue(place.endswith("train.py:2: raise KeyError(1)  # here"), place)


if __name__ == "__main__":
    unittest.main()
