"""The pytest plugin, in a real pytest, on tests whose torch is a stand-in.

pytest is taken from this Python or from the system's (Debian: python3-pytest)."""
import os
import re
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from world import BUILD, ROOT, World  # noqa: E402

os.environ["VRAMWISE_LIBRARY_DIR"] = str(BUILD)
sys.path.insert(0, str(ROOT / "python"))
import vramwise  # noqa: E402


def python_with_pytest():
    """A Python that has pytest."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import pytest"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0:
            return python
    raise AssertionError("no Python with pytest (Debian: python3-pytest; tools/setup.sh test)")


HEAD = """
import pytest, torch
from torch.cuda.memory import Block
MIB = 2 ** 20
kept = []
"""


class Plugin(unittest.TestCase):
    """Each test writes a file of tests, and runs pytest on it."""

    @classmethod
    def setUpClass(cls):
        cls.python = python_with_pytest()
        cls.world = World()

    @classmethod
    def tearDownClass(cls):
        cls.world.close()

    def pytest(self, code, *options, status=0, **environment):
        """What pytest wrote; it must end with the status."""
        file = self.world.path / "test_mine.py"
        file.write_text(HEAD + textwrap.dedent(code), encoding="utf-8")
        variables = {**self.world.environment, **environment}
        done = subprocess.run(
            [self.python, "-m", "pytest", "-p", "vramwise.pytest_plugin", "-p", "no:cacheprovider",
             "--strict-markers", "-rs", *options, file.name], cwd=self.world.path, env=variables,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, timeout=self.world.patience_seconds)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def test_a_test_within_its_limits_passes(self):
        shown = self.pytest("""
            @pytest.mark.vramwise(peak="2MiB", growth=0)
            def test_one():
                block = Block(2 * MIB)

            @pytest.mark.vramwise
            def test_without_limits():
                kept.append(Block(MIB))

            def test_without_a_mark():
                assert torch.cuda.memory.history["enabled"] is None
        """)
        self.assertIn("3 passed", shown)

    def test_a_peak_above_its_limit_names_the_lines(self):
        shown = self.pytest("""
            def forward():
                return [Block(3 * MIB) for _ in range(2)]

            @pytest.mark.vramwise(peak="6MiB")
            def test_one():
                weights = Block(MIB)
                forward()
        """, status=1)
        self.assertIn("peak: 7.00 MiB alive at once on GPU 0, 6.00 MiB allowed", shown)
        self.assertRegex(shown, r"6\.00 MiB  test_mine\.py:8 (forward|<listcomp>)\n"
                                r" +1\.00 MiB  test_mine\.py:12 test_one")
        self.assertIn("1 failed", shown)
        self.assertNotIn("INTERNALERROR", shown)

    def test_what_was_alive_before_counts_and_earlier_peaks_do_not(self):
        shown = self.pytest("""
            kept.append(Block(4 * MIB))
            def test_first():
                Block(100 * MIB)

            @pytest.mark.vramwise(peak="6MiB")
            def test_fits():
                Block(2 * MIB)

            @pytest.mark.vramwise(peak="5MiB")
            def test_does_not():
                Block(2 * MIB)
        """, status=1)
        self.assertIn("1 failed, 2 passed", shown)
        self.assertIn("peak: 6.00 MiB alive at once", shown)

    def test_growth_is_that_of_repetitions_after_the_first(self):
        shown = self.pytest("""
            @pytest.mark.vramwise(growth=0)
            def test_warms_up():
                if not kept:
                    kept.append(Block(8 * MIB))

            @pytest.mark.vramwise(growth="1MiB", repetitions=5)
            def test_may_grow():
                kept.append(Block(MIB))

            @pytest.mark.vramwise(growth="1MiB", repetitions=5)
            def test_grows():
                kept.append(Block(2 * MIB))

            @pytest.mark.vramwise(growth=0)
            def test_makes_a_cycle():
                block = [Block(MIB)]
                block.append(block)
        """, status=1)
        self.assertIn("1 failed, 3 passed", shown)
        self.assertIn("growth: 2.00 MiB more alive after each repetition, 1.00 MiB allowed", shown)
        self.assertRegex(shown, r"allowed\n +2\.00 MiB  test_mine\.py:\d+ test_grows\n=")

    def test_a_test_that_fails_or_skips_by_itself_is_left_alone(self):
        shown = self.pytest("""
            @pytest.mark.vramwise(peak="1MiB")
            def test_fails():
                assert 1 == 2

            @pytest.mark.vramwise(peak="1MiB")
            def test_skips():
                pytest.skip("mine")

            def test_history_is_off():
                assert torch.cuda.memory.history["enabled"] is None
        """, status=1)
        self.assertIn("assert 1 == 2", shown)
        self.assertIn("1 failed, 1 passed, 1 skipped", shown)

    def test_out_of_memory_gets_the_doctors_report(self):
        shown = self.pytest("""
            @pytest.mark.vramwise(peak="1MiB")
            def test_fails():
                block = Block(64 * MIB)
                raise torch.OutOfMemoryError("CUDA out of memory.")
        """, status=1)
        self.assertRegex(shown, r"-+ Captured vramwise call -+\n")
        self.assertIn("OutOfMemoryError", shown)
        self.assertRegex(shown, r"test_mine.py:9 test_fails: 64\.0 MiB")

    def test_the_fixture_measures_a_test_and_blocks_of_it(self):
        shown = self.pytest("""
            kept.append(Block(MIB))

            @pytest.mark.vramwise(peak="5MiB", growth="3MiB")
            def test_one(vram):
                assert (vram.allocations, vram.peak) == (0, vram.current)
                before = vram.current
                Block(4 * MIB)
                with vram.measure() as used:
                    Block(2 * MIB)
                    kept.append(Block(MIB))
                assert (used.peak_bytes, used.growth_bytes) == (before + 2 * MIB, MIB)
                assert used.allocations == 2
                assert vram.allocations == 3
                assert vram.peak == before + 4 * MIB
                assert vram.current == before + MIB

            def test_two(vram):
                assert vram.peak == vram.current == 4 * MIB
        """, status=1)
        # Each repetition keeps a block, so the third is at 7 MiB; the marks' peak is the highest.
        self.assertIn("peak: 7.00 MiB alive at once on GPU 0, 5.00 MiB allowed", shown)
        self.assertIn("1 failed, 1 passed", shown)

    def test_parameters_classes_and_fixtures_work_as_ever(self):
        shown = self.pytest("""
            @pytest.fixture
            def model():
                return Block(2 * MIB)

            @pytest.mark.vramwise(peak="8MiB")
            class TestAll:
                @pytest.mark.parametrize("size", [1, 2, 16])
                def test_each(self, model, size):
                    Block(size * MIB)
        """, status=1)
        self.assertIn("1 failed, 2 passed", shown)
        self.assertIn("test_each[16]", shown)

    def test_without_a_gpu_it_skips_and_says_so(self):
        code = """
            @pytest.fixture
            def model():
                raise AssertionError("made for nothing")

            @pytest.mark.vramwise(peak="8MiB")
            def test_marked(model):
                pass

            def test_fixture(vram):
                pass

            def test_other():
                pass
        """
        for environment, reason in (({"FAKE_TORCH_DEVICES": "0"}, "there is no GPU here"),
                                    ({"FAKE_TORCH_CUDA": ""}, "built without CUDA"),
                                    ({"VRAMWISE_DISABLE": "1"}, "VRAMWISE_DISABLE is set")):
            shown = self.pytest(code, **environment)
            self.assertIn("1 passed, 2 skipped", shown)
            self.assertRegex(shown, f"vramwise: memory is not measured: .*{reason}")

    def test_without_torch_it_skips_too(self):
        file = self.world.path / "test_plain.py"
        file.write_text("def test_it(vram):\n    pass\n", encoding="utf-8")
        variables = {**self.world.environment, "PYTHONPATH": str(ROOT / "python")}
        shown = subprocess.run([self.python, "-m", "pytest", "-p", "vramwise.pytest_plugin", "-rs",
                                "-p", "no:cacheprovider", file.name], cwd=self.world.path,
                               env=variables, stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("memory is not measured: PyTorch is not installed", shown)

    def test_recordings_of_tests_that_fail_are_kept_where_asked_for(self):
        self.pytest("""
            @pytest.mark.vramwise(peak="1MiB")
            @pytest.mark.parametrize("name", ["../a b"])
            def test_big(name):
                Block(2 * MIB)

            @pytest.mark.vramwise(peak="1MiB")
            def test_small():
                pass
        """, "--vramwise-recordings", "kept/here", status=1)
        (path,) = (self.world.path / "kept/here").iterdir()
        self.assertTrue(re.fullmatch(r"test_mine\.py_test_big_[\w.-]+\.pickle", path.name), path.name)
        self.assertEqual(vramwise.load(path).peak_live_bytes, 2 << 20)

    def test_an_allocator_without_a_history_still_has_limits(self):
        shown = self.pytest("""
            def refuse(*_, **__): raise RuntimeError("does not yet support recordHistory.")
            torch.cuda.memory._record_memory_history = refuse

            @pytest.mark.vramwise(peak="1MiB")
            def test_big():
                Block(2 * MIB)
        """, status=1)
        self.assertIn("peak: 2.00 MiB alive at once", shown)
        self.assertIn("which lines hold it is not known: this allocator keeps no history", shown)

    def test_marks_that_make_no_sense_are_refused_before_any_test_runs(self):
        for mark, words in (('"2GiB"', "takes peak, growth, repetitions by name, not 2GiB"),
                            ("peek=1", "by name, not peek"),
                            ('peak="many"', "peak=...): a size is a number of bytes"),
                            ("peak=-1", "a size is a number of bytes"),
                            ("growth=True", "a size is a number of bytes"),
                            ("growth=0, repetitions=1", "expected a number of at least 2, not 1"),
                            ("repetitions='x'", "expected a number of at least 1")):
            shown = self.pytest(f"""
                @pytest.mark.vramwise({mark})
                def test_one():
                    pass
            """, status=4)
            self.assertIn(words, shown)
            self.assertNotIn("INTERNALERROR", shown)
        shown = self.pytest("""
            import unittest
            class Mine(unittest.TestCase):
                @pytest.mark.vramwise(peak="1MiB")
                def test_one(self):
                    pass
        """, status=4)
        self.assertIn("is for test functions", shown)

    def test_the_mark_is_listed(self):
        self.assertIn("@pytest.mark.vramwise(peak=None, growth=None, repetitions=3)",
                      self.pytest("", "--markers"))


if __name__ == "__main__":
    unittest.main()
