"""The library in a program that writes a comma into its numbers, as one in German does, answers as in any other."""
import os
import subprocess
import sys
import unittest

from world import BUILD, DATA, ROOT

LOCALES = BUILD / "tests" / "locale"

PROGRAM = """
import ctypes, locale, sys
if sys.argv[1] == "comma":
    locale.setlocale(locale.LC_NUMERIC, "comma")
printed = ctypes.create_string_buffer(8)
ctypes.CDLL(None).snprintf(printed, ctypes.c_size_t(8), b"%.1f", ctypes.c_double(1.5))
assert printed.value == (b"1,5" if sys.argv[1] == "comma" else b"1.5"), printed.value

import vramwise

recordings = sys.argv[2]
with vramwise.load(recordings + "/train_eval_phases.native.pickle.xz") as recording:
    print(recording.replay(conf="garbage_collection_threshold:0.8"))
    print(recording.tune("24GiB"))
for name in ("oom_fragmented.gc6.pickle.xz", "train_eval_phases.native.pickle.xz"):
    print(vramwise.doctor(recordings + "/" + name).text)
"""


class Comma(unittest.TestCase):

    @unittest.skipUnless((LOCALES / "comma" / "LC_NUMERIC").exists(), "no locale with a comma could be made here")
    def test_every_answer_is_as_in_the_c_locale(self):
        with_comma, without = self._answers("comma"), self._answers("C")
        self.assertIn("0.8", without)
        self.assertEqual(with_comma, without)

    @staticmethod
    def _answers(name):
        variables = dict(os.environ, LOCPATH=str(LOCALES), VRAMWISE_LIBRARY_DIR=str(BUILD),
                         PYTHONPATH=str(ROOT / "python"))
        return subprocess.run([sys.executable, "-c", PROGRAM, name, str(DATA / "recordings")], env=variables, check=True,
                              stdout=subprocess.PIPE, universal_newlines=True).stdout


if __name__ == "__main__":
    unittest.main()
