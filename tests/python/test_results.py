"""What commands find, as objects: the fields are those of --json, each with its type; str() is what the
program prints; the pictures of notebooks are whole and harmless."""
import copy
import html.parser
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import typing
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from world import BUILD, DATA, ROOT  # noqa: E402

os.environ["VRAMWISE_LIBRARY_DIR"] = str(BUILD)
sys.path.insert(0, str(ROOT / "python"))
import vramwise  # noqa: E402
from vramwise import _fields, _jobs, _notebook, _pictures, _results  # noqa: E402

PHASES = str(DATA / "recordings/train_eval_phases.native.pickle.xz")
FRAGMENTED = str(DATA / "recordings/oom_fragmented.native.pickle.xz")
STREAMS = str(DATA / "recordings/streams.native.pickle.xz")
ERROR = ("CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which "
         "1.10 GiB is free. Process 1 has 22.50 GiB memory in use. Of the allocated memory 12.00 GiB is "
         "allocated by PyTorch, and 10.00 GiB is reserved by PyTorch but unallocated.")


def program(*words, given=None):
    """What the program prints."""
    done = subprocess.run([BUILD / "vramwise", *words], capture_output=True, text=True, check=False,
                          input=given, env={"PATH": os.environ["PATH"], "LC_ALL": "C", "COLUMNS": "80"})
    if done.returncode not in (0, 1):
        raise AssertionError(done.stderr)
    return done.stdout


def faults(value, hint, place):
    """Where data is not as its annotation says."""
    if typing.get_origin(hint) is typing.Union:
        inner = [each for each in typing.get_args(hint) if each is not type(None)]
        return [] if value is None else faults(value, inner[0], place)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list):
            return [f"{place} is {value!r}, not a list"]
        inner = typing.get_args(hint)[0]
        return [fault for each in value for fault in faults(each, inner, place + "[]")]
    if typing.get_origin(hint) is dict:
        inner = typing.get_args(hint)[1]
        return [fault for name, each in value.items() for fault in faults(each, inner, f"{place}.{name}")]
    if issubclass(hint, _fields.Fields):
        hints = _fields.hints_of(hint)
        found = [f"{place}.{name} is in the JSON only" for name in value if name not in hints]
        for name, each in hints.items():
            if name in value:
                found += faults(value[name], each, f"{place}.{name}")
            elif name != "measured":  # with measure=True alone
                found.append(f"{place}.{name} is in the class only")
        return found
    if hint is float and type(value) is int:
        return []
    return [] if type(value) is hint else [f"{place} is {value!r}, expected {hint.__name__}"]


class Markup(html.parser.HTMLParser):
    """Reads a picture; every element must be closed, and none may load or run anything."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.words = [], set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        names = {name for name, _ in attributes}
        if names - {"style", "title"}:
            raise AssertionError(f"<{tag}> has {names}")
        if tag != "wbr":
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes another element")

    def handle_data(self, data):
        self.words.append(data)


class Results(unittest.TestCase):
    """Each result, beside what the program prints."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        baseline = str(Path(cls.folder.name, "main.json"))
        phases, streams = vramwise.load(PHASES), vramwise.load(STREAMS)
        cls.addClassCleanup(phases.close)
        cls.addClassCleanup(streams.close)
        streams.write_baseline(baseline)
        cls.cases = [  # a result, and the words of the command
            (phases.stats(), ["stats", PHASES]),
            (phases.verify(), ["verify", PHASES]),
            (phases.replay(card="6GiB", smallest_card=True),
             ["replay", PHASES, "--card", "6GiB", "--smallest-card"]),
            (phases.replay(card="4GiB", spill="8GiB"), ["replay", PHASES, "--card", "4GiB", "--spill", "8GiB"]),
            (phases.replay("native", card="4GiB"), ["replay", PHASES, "--policy", "native", "--card", "4GiB"]),
            (phases.tune("6GiB"), ["tune", PHASES, "--card", "6GiB"]),
            (phases.tune("4GiB"), ["tune", PHASES, "--card", "4GiB"]),
            (streams.diff(phases), ["diff", STREAMS, PHASES]),
            (phases.check(baseline), ["check", PHASES, "--baseline", baseline]),
            (vramwise.plan("llama-3.2-1b", batch=8, seq=2048, card="rtx4090"),
             ["plan", "--model", "llama-3.2-1b", "--batch", "8", "--seq", "2048", "--card", "rtx4090"]),
            (vramwise.plan("gpt2", batch=2), ["plan", "--model", "gpt2", "--batch", "2"]),
            (phases.plan(8, batch=16, card="4GiB"),
             ["plan", "--from", PHASES, "--batch-now", "8", "--batch", "16", "--card", "4GiB"]),
            (phases.plan(8, batch=16), ["plan", "--from", PHASES, "--batch-now", "8", "--batch", "16"]),
            (phases.doctor(card="4GiB"), ["doctor", PHASES, "--card", "4GiB"]),
            (phases.replay(card="4GiB", spill="8GiB", stream=True),
             ["replay", PHASES, "--card", "4GiB", "--spill", "8GiB", "--stream"]),
        ]

    def test_the_fields_are_those_of_json_with_their_types(self):
        for result, words in self.cases:
            said = json.loads(program(*words, "--json"))
            given = dict(said, **{name: result[name] for name in ("devices", "changes") if name in said})
            self.assertEqual(result.to_dict(), given, words)  # how long lists are is the caller's choice
            self.assertIs(type(result.to_dict()), dict)
            self.assertEqual(faults(result.to_dict(), type(result), type(result).__name__), [], words)
        for result in (vramwise.doctor(ERROR), vramwise.load(STREAMS).summary):
            self.assertEqual(faults(result, type(result), type(result).__name__), [])

    def test_str_is_what_the_program_prints_and_repr_is_one_line(self):
        for result, words in self.cases:
            shown = [] if words[0] == "doctor" else [(str(result), program(*words).rstrip("\n"))]
            if words[0] == "doctor":
                shown.append((result.text, program(*words, "--all")))
                self.assertLessEqual(len(str(result).splitlines()), 24)
            for text, printed in shown:
                self.assertEqual(text, printed, words)
            paragraph = re.split(r"\n(?!  \S)", str(result))[0]  # the lines of a sentence are indented
            self.assertEqual(repr(result), f"<vramwise.{type(result).__name__}: {' '.join(paragraph.split())}>")
        self.assertRegex(repr(self.cases[5][0]), r"reserved at most, with [a-z_]+:\S+>$")

    def test_attributes_are_converted_and_keys_are_plain(self):
        tuned = self.cases[5][0]
        self.assertIsInstance(tuned.best, _results.ReplayRun)
        self.assertEqual(tuned.best.conf, tuned["best"]["conf"])
        self.assertIs(type(tuned["best"]), dict)
        self.assertEqual([run.policy for run in tuned.tried], [run["policy"] for run in tuned["tried"]])
        self.assertIsInstance(tuned.tried, tuple)
        self.assertIsNone(tuned.best.oom)
        scaled = self.cases[11][0]
        self.assertEqual(scaled.grows_with["constant"].bytes, scaled["grows_with"]["constant"]["bytes"])
        with self.assertRaisesRegex(AttributeError, "'Tuned' object has no attribute 'worst'"):
            tuned.worst
        self.assertIn("best", dir(tuned))
        self.assertTrue(repr(tuned.best).startswith("ReplayRun(policy='conf', conf='"), repr(tuned.best))

    def test_an_older_library_says_less(self):
        run = _results.ReplayRun({"policy": "native"})
        self.assertEqual((run.policy, run.conf, run.oom), ("native", None, None))

    def test_no_field_hides_a_method_of_dict(self):
        for module in (_results, _jobs, _notebook, vramwise._diagnosis):
            for kind in vars(module).values():
                if isinstance(kind, type) and issubclass(kind, _fields.Fields):
                    self.assertEqual(set(_fields.hints_of(kind)) & set(dir(dict)), set(), kind)

    def test_they_can_be_copied_pickled_and_dumped(self):
        for result, words in self.cases:
            for other in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
                self.assertEqual((type(other), other, str(other)), (type(result), result, str(result)))
            self.assertEqual(json.loads(json.dumps(result)), result.to_dict(), words)

    def test_pictures_are_whole(self):
        with vramwise.load(PHASES) as recording:
            pictures = [recording._repr_html_(), vramwise.doctor(ERROR)._repr_html_(),
                        vramwise.doctor("no error here\n")._repr_html_()]
        for text in pictures + [result._repr_html_() for result, _ in self.cases]:
            self.assertEqual(Markup(text).open, [])
            self.assertLess(len(text), 20_000)

    def test_pictures_say_what_was_found(self):
        words = {words[0] + words[-1]: " ".join(Markup(result._repr_html_()).words)
                 for result, words in self.cases}
        self.assertIn("fits 5.41 GiB of 6.00 GiB reserved at most", " ".join(words["tune6GiB"].split()))
        self.assertIn("does not fit", words["tune4GiB"])
        self.assertIn("out of memory", words["tune4GiB"])
        self.assertIn("precision bf16", words["planrtx4090"])
        self.assertIn("activations 4.83 GiB", words["plan4GiB"])
        self.assertIn("11,079 of 11,079", words["verify" + PHASES])
        self.assertIn("train.py:50 lm_step", words["diff" + PHASES].replace("\n", ""))

    def test_pictures_agree_with_the_reports(self):
        with vramwise.load(PHASES) as phases, vramwise.load(FRAGMENTED) as fragmented:
            for tuned, advice in (
                    (phases.tune("24GiB"), "Leave PYTORCH_CUDA_ALLOC_CONF unset."),
                    (phases.tune("5.5GiB"), "PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.6,"
                                            "per_process_memory_fraction:0.99"),
                    (fragmented.tune("7GiB"), "vramwise run --allocator vramwise")):
                words = Markup(tuned._repr_html_()).words
                self.assertIn(advice, str(tuned).splitlines())
                self.assertEqual([words.count(advice), words.count("recorded")], [1, 1], words)
            said = Markup(phases.stats()._repr_html_()).words
            self.assertEqual("(no Python frame)" in said, "(no Python frame)" in str(phases.stats()))
            self.assertIn("and 2 more", said)
            self.assertEqual(phases._repr_html_().count("<tr"), 9)  # its users, too
            self.assertEqual(str(phases).splitlines(),
                             program("stats", PHASES, "--no-summary").splitlines())
            replayed = phases.replay(["native", "vramwise"], smallest_card=True)
            words = Markup(replayed._repr_html_()).words
            self.assertIn("smallest card", words)
            for run in replayed.results:
                self.assertIn(_pictures.size(run.smallest_card_bytes), words)
            self.assertNotIn("smallest card", Markup(phases.replay("native")._repr_html_()).words)
        for result, words in self.cases:  # rows that differ in the report differ in the picture
            said = "".join(Markup(result._repr_html_()).words)
            if words[0] == "stats":
                self.assertIn("train.py:50 lm_step > activations.py:66", said)
                self.assertIn("train.py:50 lm_step > functional.py:3504", said)
            if words[0] == "diff":
                self.assertIn("+2.63 GiB", said)
            if words[-1] == "4GiB" and "--from" in words:
                self.assertIn("7.52 GiB (not enough)", said)
                self.assertIn("1.91 GiB to 3.25 GiB (fits)", said)
        found = vramwise.doctor(ERROR.replace("12.00", "21.00").replace("10.00", "1.00"))
        for text in (" ".join(str(found).split()), " ".join(Markup(found._repr_html_()).words)):
            self.assertIn("saves 2.10 GiB to 9.90 GiB (rule of thumb)", text)
        self.assertIn("what takes less", Markup(self.cases[10][0]._repr_html_()).words)
        self.assertIn("what makes it fit", Markup(self.cases[9][0]._repr_html_()).words)

    def test_names_from_outside_do_not_get_into_the_markup(self):
        evil = "<script>alert(1)</script>\"'&"
        for result, _ in self.cases:
            def poisoned(value):
                if isinstance(value, dict):
                    return {name: poisoned(each) for name, each in value.items()}
                if isinstance(value, list):
                    return [poisoned(each) for each in value]
                return evil if isinstance(value, str) else value
            made = copy.copy(result)
            made.update(poisoned(result.to_dict()))
            self.assertEqual(Markup(made._repr_html_()).seen - {
                "div", "span", "code", "table", "tr", "th", "td", "wbr"}, set())

    def test_jobs_have_the_fields_of_their_page(self):
        with tempfile.TemporaryDirectory() as folder:
            code = ("import sys; sys.path.insert(0, %r)\nfrom vramwise import _live, _jobs\n"
                    "page = _live.Page(); page.identify('train', 'pytorch')\n"
                    "page.put(0, 'H200', {'live_bytes': 5, 'reserved_bytes': 9})\n"
                    "page.step(page.address, 0, 1, 5, 9)\n"
                    "import json; print(json.dumps(_jobs.jobs()))\n" % str(ROOT / "python"))
            said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                                  env={**os.environ, "VRAMWISE_LIVE_DIR": folder})
        (job,) = json.loads(said.stdout)
        self.assertEqual(faults(job, _jobs.Job, "Job"), [])
        job = _jobs.Job(job)
        self.assertEqual((job.devices[0].live_bytes, job.devices[0].outlook.is_leak,
                          job.devices[0].step_log[0].reserved_bytes), (5, False, 9))


if __name__ == "__main__":
    unittest.main()
