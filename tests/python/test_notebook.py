"""%%vram with a stand-in for IPython's shell, on memory that is measured by a stand-in: what it took, the
lines of cells by their names, errors shown once. And, where IPython is installed, in a real shell."""
import contextlib
import importlib.util
import io
import linecache
import os
import pickle
import shutil
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
from world import BUILD, ROOT  # noqa: E402

os.environ["VRAMWISE_LIBRARY_DIR"] = str(BUILD)
sys.path.insert(0, str(ROOT / "python"))
import vramwise  # noqa: E402
from vramwise import _measure, _notebook  # noqa: E402

CELL = "/tmp/ipykernel_7/123.py"
GIB = 1 << 30


def frame(file, line, name):
    """A frame of a stack, as PyTorch has it."""
    return {"filename": file, "line": line, "name": name}


def snapshot():
    """A cell that asks for 3 GiB and keeps 2, one of them in a function of another cell."""
    stacks = [[frame("/x/torch/nn/linear.py", 9, "forward"), frame(CELL, 2, "<module>")],
              [frame("<ipython-input-2-abc>", 5, "helper"), frame(CELL, 3, "<module>")],
              [frame("/home/me/model.py", 40, "forward"), frame(CELL, 4, "<module>")]]
    events, blocks = [], []
    for place, stack in enumerate(stacks):
        address = 0x7000_0000_0000 + place * GIB
        common = {"addr": address, "size": GIB, "stream": 0, "frames": stack}
        events += [{"action": "segment_alloc", **common}, {"action": "alloc", **common}]
        blocks.append({"address": address, "total_size": GIB, "stream": 0, "segment_type": "large",
                       "allocated_size": GIB, "active_size": GIB, "device": 0,
                       "blocks": [{"size": GIB, "requested_size": GIB, "state": "active_allocated",
                                   "frames": stack}]})
    first = events[1]
    events += [{**first, "action": "free_requested"}, {**first, "action": "free_completed"}]
    blocks[0].update(allocated_size=0, active_size=0)
    blocks[0]["blocks"][0]["state"] = "inactive"
    return {"segments": blocks, "device_traces": [events]}


class Measured(_measure.Method):
    """Memory that a test made up."""
    name = "GPU 0"

    def __init__(self, path=None):
        self.path, self.calls = path, []

    def begin(self):
        self.calls.append("begin")

    def current_bytes(self):
        return GIB if self.calls == ["begin"] else 3 * GIB

    def peak_bytes(self):
        return 4 * GIB

    def allocations(self):
        return 3

    def total_bytes(self):
        return 24 * GIB

    def keep_history(self):
        self.calls.append("keep")

    def drop_history(self):
        self.calls.append("drop")

    def write_recording(self, path):
        if self.path is None:
            super().write_recording(path)
        shutil.copy(self.path, path)


class Shell:
    """What %%vram asks of IPython."""

    def __init__(self):
        self.user_ns, self.magics, self.shown, self.errors = {}, {}, [], []
        self.compile = types.SimpleNamespace(_filename_map={CELL: 3})

    def register_magic_function(self, function, kind, name):
        self.magics[kind, name] = function

    def showtraceback(self):
        self.errors.append(sys.exc_info()[1])

    showsyntaxerror = showtraceback

    def run_cell(self, cell):
        outcome = types.SimpleNamespace(error_before_exec=None, error_in_exec=None)
        try:
            code = compile(cell, CELL, "exec")
            exec(code, self.user_ns)
        except SyntaxError as error:
            outcome.error_before_exec = error
            self.showsyntaxerror()
        except Exception as error:
            outcome.error_in_exec = error
            self.showtraceback()

        def raise_error():
            for error in (outcome.error_before_exec, outcome.error_in_exec):
                if error is not None:
                    raise error
        outcome.raise_error = raise_error
        return outcome


class Notebook(unittest.TestCase):
    """%load_ext vramwise"""

    def setUp(self):
        folder = contextlib.ExitStack()
        self.addCleanup(folder.close)
        self.shell = Shell()
        vramwise.load_ipython_extension(self.shell)
        self.vram = self.shell.magics["cell", "vram"]
        self.path = Path(os.environ.get("TMPDIR", "/tmp")) / f"vramwise-test-cell-{os.getpid()}.pickle"
        folder.callback(self.path.unlink, missing_ok=True)
        self.path.write_bytes(pickle.dumps(snapshot()))
        self.method = Measured(self.path)
        display = types.SimpleNamespace(display=self.shell.shown.append)
        folder.enter_context(mock.patch.dict(sys.modules, {"IPython": types.ModuleType("IPython"),
                                                           "IPython.display": display}))
        self.how = folder.enter_context(mock.patch.object(_measure, "how", return_value=self.method))
        linecache.cache[CELL] = (1, None, ["# cell\n", "y = layer(x)\n", "z = helper(y)\n"], CELL)
        folder.callback(linecache.cache.pop, CELL)

    def test_a_cell_shows_its_peak_what_is_alive_and_the_lines(self):
        self.vram("used", "answer = 6 * 7")
        self.assertEqual((self.shell.user_ns["answer"], self.method.calls), (42, ["begin", "keep", "drop"]))
        (shown,) = self.shell.shown
        self.assertIs(self.shell.user_ns["used"], shown)
        self.assertEqual((shown.device, shown.before_bytes, shown.peak_bytes, shown.after_bytes,
                          shown.allocations, shown.total_bytes),
                         ("GPU 0", GIB, 4 * GIB, 3 * GIB, 3, 24 * GIB))
        self.assertEqual([(line.where, line.code, line.peak_bytes, line.after_bytes) for line in shown.lines],
                         [("model.py:40 forward", None, GIB, GIB),
                          ("cell 2, line 5 in helper", None, GIB, GIB),
                          ("cell 3, line 2", "y = layer(x)", GIB, 0)])
        self.assertEqual(str(shown).splitlines(), [
            "peak 4.00 GiB on GPU 0; 3.00 GiB alive afterwards (+2.00 GiB), 3 allocations",
            " at the peak   afterwards  line",
            "    1.00 GiB     1.00 GiB  model.py:40 forward",
            "    1.00 GiB     1.00 GiB  cell 2, line 5 in helper",
            "    1.00 GiB               cell 3, line 2: y = layer(x)"])
        self.assertIn("y = layer(x)", shown._repr_html_())

    def test_one_allocation_is_no_plural(self):
        with mock.patch.object(self.method, "allocations", return_value=1):
            self.vram("", "answer = 1")
        self.assertEqual(str(self.shell.shown[0]).splitlines()[0].rpartition(", ")[2], "1 allocation")

    def test_an_error_is_raised_once_and_the_memory_shown(self):
        with self.assertRaisesRegex(KeyError, "mine"):
            self.vram("", "raise KeyError('mine')")
        self.assertEqual(self.shell.errors, [])
        self.assertIn("the cell ended with an error", str(self.shell.shown[0]))
        self.assertEqual(self.method.calls[-1], "drop")
        self.shell.run_cell("raise KeyError('later')")
        self.assertEqual(len(self.shell.errors), 1)  # the shell shows errors again

    def test_a_cell_on_an_empty_gpu_has_no_lines(self):
        self.path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}))
        self.vram("", "answer = 1")
        self.assertEqual((self.shell.user_ns["answer"], self.shell.shown[0].lines), (1, ()))

    def test_a_cell_that_cannot_run_has_no_memory_and_one_error(self):
        with self.assertRaises(SyntaxError):
            self.vram("used", "x = (")
        self.assertEqual((self.shell.shown, self.shell.errors), ([], []))
        self.assertNotIn("used", self.shell.user_ns)

    def test_how_the_shell_shows_errors_is_put_back(self):
        mine = []
        self.shell.showtraceback = lambda: mine.append("shown")  # as rich.traceback does
        self.vram("", "pass")
        self.shell.run_cell("raise KeyError")
        self.assertEqual((mine, self.shell.errors), (["shown"], []))

    def test_without_a_history_the_numbers_are_shown(self):
        self.how.return_value = Measured()
        self.vram("", "pass")
        self.assertEqual(self.shell.shown[0].lines, ())
        self.assertIn("which lines hold it is not known: this way to measure has no history",
                      str(self.shell.shown[0]))

    def test_where_nothing_is_measured_the_cell_runs(self):
        self.how.side_effect = _measure.Unmeasurable("there is no GPU here")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.vram("", "answer = 1")
            with self.assertRaises(KeyError):
                self.vram("", "raise KeyError")
        self.assertEqual((self.shell.user_ns["answer"], self.shell.shown, self.shell.errors), (1, [], []))
        self.assertTrue(said.getvalue().startswith(
            "vramwise: memory is not measured: there is no GPU here"), said.getvalue())

    def test_tracing_is_by_choice(self):
        self.vram("--trace", "pass")
        self.how.assert_called_with(can_trace=True)
        self.vram("", "pass")
        self.how.assert_called_with(can_trace=False)

    def test_wrong_words_are_refused_before_the_cell_runs(self):
        for line in ("--fast", "one two", "3x"):
            with self.assertRaisesRegex(ValueError, r"%%vram: .*usage: %%vram \[NAME\] \[--trace\]"):
                self.vram(line, "ran = True")
        self.assertNotIn("ran", self.shell.user_ns)

    @unittest.skipIf(importlib.util.find_spec("IPython") is None, "IPython is not installed")
    def test_in_a_real_shell(self):
        for name in ("IPython", "IPython.display"):
            sys.modules.pop(name)
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell()
        shell.run_line_magic("load_ext", "vramwise")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            shell.run_cell("%%vram used\nanswer = 6 * 7\nanswer", store_history=True)
        self.assertEqual(shell.user_ns["answer"], 42)
        self.assertIn("peak 4.00 GiB on GPU 0", said.getvalue())
        self.assertEqual(shell.user_ns["used"].peak_bytes, 4 * GIB)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            outcome = shell.run_cell("%%vram\n1 / 0")
        self.assertIsInstance(outcome.error_in_exec, ZeroDivisionError)
        self.assertEqual(said.getvalue().count("division by zero"), 1, said.getvalue())
        with contextlib.redirect_stdout(io.StringIO()) as said:
            shell.run_cell("%%vram\nx = (")
        self.assertEqual(said.getvalue().count("SyntaxError"), 1, said.getvalue())


if __name__ == "__main__":
    unittest.main()
