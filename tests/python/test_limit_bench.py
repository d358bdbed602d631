"""bench_limit.py without a GPU: its processes, its phases on made-up runs, and what its report finds.

A made-up allocator completes from its own factor on; everything else is the program as it is.
"""
import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "torch"))

import bench_limit as bench  # noqa: E402
import limit_children as children  # noqa: E402
import limit_report as report  # noqa: E402

RECORDING = ROOT / "tests/data/recordings/graphs.native.pickle.xz"
BUILD = os.environ.get("VRAMWISE_BUILD", str(ROOT / "build"))
LIVE_BYTES = 1000 << 20
LOSSES = [value.hex() for value in (3.0, 2.5, 2.25, 2.0, 1.5)]
LONG_SECONDS = 120  # no child here works that long


def behave(order):
    """What a child does in the tests of the processes."""
    if order == "hang":
        signal.pause()
    if order == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if order == "leave":
        os._exit(3)
    if order == "raise":
        raise ValueError("no such thing")
    return {"order": order, "long": "x" * 300_000}


class ChildrenTest(unittest.TestCase):
    def test_answers_come_in_order_and_whole(self):
        answers = children.run_all(behave, [3, 1, 2], 2, LONG_SECONDS)
        self.assertEqual([answer["order"] for answer in answers], [3, 1, 2])
        self.assertEqual({len(answer["long"]) for answer in answers}, {300_000})

    def test_a_child_that_fails_is_answered_for(self):
        seen = []
        answers = children.run_all(behave, ["die", "leave", "raise", 1], 4, LONG_SECONDS,
                                   on_answer=lambda order, answer: seen.append(order))
        self.assertEqual(answers[0]["error"], "signal 9: no output")
        self.assertEqual(answers[1]["error"], "exit status 3: no output")
        self.assertEqual(answers[2]["error"], "exit status 1: ValueError: no such thing")
        self.assertNotIn("error", answers[3])
        self.assertCountEqual(seen, ["die", "leave", "raise", 1])

    def test_a_child_that_hangs_is_killed(self):
        answers = children.run_all(behave, ["hang"], 1, 0.2)
        self.assertTrue(answers[0]["error"].startswith("killed after"))

    def test_nothing_starts_after_the_deadline(self):
        self.assertEqual(children.run_all(behave, [1, 2], 1, 5, time.monotonic() - 1), [None, None])


def fake_run(needs):
    """A run_on_gpu() under which an allocator needs needs[allocator] times what is live."""
    def run(order):
        factor = order.get("factor")
        is_done = factor is None or factor >= needs[order["allocator"]]
        steps = len(LOSSES) if is_done else 2
        if order.get("record_to"):
            shutil.copy(RECORDING, order["record_to"])
        limit = order.get("limit_bytes", LIVE_BYTES * 2)
        assert limit % bench.PAGE_BYTES == 0
        return {"completed": is_done, "is_oom": not is_done, "step": steps, "steps": len(LOSSES),
                "losses": LOSSES[:steps], "step_ms": [100.0, 50.0, 20.0, 10.0, 12.0][:steps],
                "peak_allocated": LIVE_BYTES, "peak_reserved": min(limit, LIVE_BYTES * 11 // 10),
                "retries": 4, "failures": 0}
    return run


class PhasesTest(unittest.TestCase):
    NEEDS = {"native": 1.2, "expandable": 1.02, "vramwise": 1.013, "vramwise:rescue": 1.0}

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.real_run = bench.run_on_gpu
        self.addCleanup(setattr, bench, "run_on_gpu", self.real_run)

    def run_phases(self, needs, phases=bench.PHASES, budget=600.0, run=None, before=None):
        bench.run_on_gpu = run or fake_run(needs)
        arguments = argparse.Namespace(budget=budget, parallel=4, grid=0.5, turns=2,
                                       before=before, phases=phases, workloads=["one", "two"])
        with contextlib.redirect_stderr(io.StringIO()):
            work = bench.Bench(self.folder, arguments, time.monotonic())
            for phase in phases:
                getattr(work, phase)()
        work.log.close()
        return report.Results.read(self.folder)

    def check(self, results):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = report.check(results)
        return status, out.getvalue()

    def test_the_smallest_cards_are_found(self):
        results = self.run_phases(self.NEEDS)
        self.assertEqual(results.live_bytes("one"), LIVE_BYTES)
        self.assertEqual(results.smallest_card("one", "expandable"), (1.01, 1.02))
        self.assertEqual(results.smallest_card("one", "vramwise"), (1.01, 1.015))
        self.assertEqual(results.smallest_card("two", "vramwise:rescue"), (None, 1.0))
        self.assertEqual({line["factor"] for line in results.timed["one", "vramwise"]}, {1.02})
        self.assertEqual(len(results.timed["host_bound", "native"]), 4)

    def test_a_card_beyond_the_table_is_looked_for(self):
        results = self.run_phases({**self.NEEDS, "vramwise": 1.083})
        self.assertEqual(results.smallest_card("one", "vramwise"), (1.08, 1.085))

    def test_the_check_names_where_the_default_loses(self):
        status, text = self.check(self.run_phases(self.NEEDS))
        self.assertEqual(status, 1)
        self.assertIn("FAIL one: card 1.000: done by rescue, not by the default (out of memory in "
                      "step 3)", text)
        self.assertNotIn("card 1.020", text)
        status, text = self.check(self.run_phases({**self.NEEDS, "vramwise": 1.0}))
        self.assertEqual((status, text.count("ok ")), (0, 2), text)

    def test_other_losses_and_slow_steps_are_faults(self):
        honest = fake_run({**self.NEEDS, "vramwise": 1.0})

        def wrong(order):
            answer = honest(order)
            if order["allocator"] == "vramwise" and order["phase"] == "limits":
                answer["losses"] = answer["losses"][:-1] + [(9.0).hex()]
            if order["allocator"] == "vramwise" and order["phase"] == "times":
                answer["step_ms"] = [1.05 * ms for ms in answer["step_ms"]]
            return answer

        status, text = self.check(self.run_phases(None, run=wrong))
        self.assertEqual(status, 1)
        self.assertIn("FAIL one: card 1.020: the losses of vramwise differ", text)
        self.assertIn("FAIL two: steps take 1.050 times", text)
        self.assertIn("FAIL host_bound: the default's steps take 1.0500 times native ones", text)
        results = self.run_phases(None, run=wrong, before="/earlier")
        self.assertEqual(len(results.timed["host_bound", report.BEFORE]), 4)
        self.assertIn("times earlier ones", self.check(results)[1])

    def test_losses_that_pytorch_cannot_repeat_prove_nothing(self):
        honest = fake_run(self.NEEDS)

        def unsteady(order):
            answer = honest(order)
            if order["allocator"] != "native":
                answer["losses"] = [(9.0).hex()] * len(answer["losses"])
            return answer

        results = self.run_phases(None, run=unsteady)
        line = results.limited["one", "vramwise", 1.05]
        self.assertEqual(results.losses("one", line), "unknown")

    def test_a_workload_that_cannot_be_strict_is_run_again(self):
        honest = fake_run(self.NEEDS)

        def picky(order):
            if order["workload"] == "two" and order["strict"]:
                raise RuntimeError("x does not have a deterministic implementation")
            return honest(order)

        results = self.run_phases(None, run=picky)
        self.assertEqual(results.strictness(), {"one": True, "two": False})
        self.assertEqual(results.smallest_card("two", "expandable"), (1.01, 1.02))

    def test_a_card_that_gives_no_answer_is_not_tried_for_ever(self):
        honest = fake_run(self.NEEDS)

        def broken(order):
            if order["phase"] == "finer":
                raise RuntimeError("no answer")
            return honest(order)

        results = self.run_phases(None, run=broken)
        self.assertEqual(results.smallest_card("one", "vramwise"), (1.01, 1.02))
        self.assertIn("error", results.limited["one", "vramwise", 1.015])

    def test_phases_can_be_run_one_after_another(self):
        self.run_phases(self.NEEDS, phases=("record",))
        self.run_phases(self.NEEDS, phases=("limits",))
        results = self.run_phases(self.NEEDS, phases=("finer", "times"))
        self.assertEqual(results.smallest_card("one", "vramwise"), (1.01, 1.015))
        self.assertIsNotNone(report.time_ratios(results, "one", "vramwise", "expandable"))

    def test_a_workload_that_fails_stops_none_of_the_others(self):
        honest = fake_run(self.NEEDS)

        def broken(order):
            if order["workload"] == "one":
                raise RuntimeError("it is | broken")
            return honest(order)

        results = self.run_phases(None, run=broken)
        self.assertEqual(results.smallest_card("two", "expandable"), (1.01, 1.02))
        text = report.tables(results)
        self.assertIn("- one, native: error: exit status 1: RuntimeError: it is / broken", text)
        status, text = self.check(results)
        self.assertIn("FAIL one: the default was never run at a limit", text)
        self.assertEqual(status, 1)

    def test_without_time_nothing_is_run_and_the_check_says_so(self):
        status, text = self.check(self.run_phases(self.NEEDS, budget=-1.0))
        self.assertEqual(status, 1)
        self.assertIn("nothing was run", text)

    def test_replay_is_held_against_the_gpu(self):
        self.run_phases(self.NEEDS, phases=("record", "limits"))
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(report.replay(self.folder, f"{BUILD}/vramwise"), 0)
        results = report.Results.read(self.folder)
        fails, completes, replayed, outside = report.replay_distance(results, "one", "expandable")
        self.assertEqual((fails, completes), (1.01, 1.02))
        self.assertLess(replayed, 1.01)  # the recording is of a smaller program
        self.assertAlmostEqual(outside, 100 * (replayed - 1.01))
        self.assertIn("FAIL one: expandable: replay is", self.check(results)[1])
        rows = [row for row in report.tables(results).splitlines()
                if row.startswith("| one ") and "1.010 to 1.020" in row]
        self.assertEqual(len(rows), 2, rows)  # without `finer` the default's are these two as well

    def test_a_log_is_lines_of_json(self):
        self.run_phases(self.NEEDS)
        lines = (self.folder / report.LOG).read_text(encoding="ascii").splitlines()
        self.assertGreater(len(lines), 2 * 15)
        for line in lines:
            self.assertNotIn("record_to", json.loads(line))


if __name__ == "__main__":
    unittest.main(verbosity=2)
