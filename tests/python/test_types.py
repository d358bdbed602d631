"""The type hints of the package, by mypy: complete, right, and of use to those who call it."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
USE = ROOT / "tests/python/typed_use.py"


@unittest.skipIf(shutil.which("mypy") is None, "there is no mypy (tools/setup.sh test installs it)")
class Types(unittest.TestCase):
    """What mypy says."""

    def mypy(self, *words):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                ["mypy", "--config-file", str(ROOT / "python/mypy.ini"), "--cache-dir", cache,
                 "--no-error-summary", *map(str, words)], text=True, capture_output=True, check=False,
                env={**os.environ, "MYPYPATH": str(ROOT / "python")}, cwd=cache)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_the_package_has_no_fault(self):
        self.assertEqual(self.mypy(ROOT / "python/vramwise"), "")

    def test_those_who_use_it_get_types_and_errors(self):
        said = {}
        for line in self.mypy(USE).splitlines():
            found = re.match(r".*typed_use\.py:(\d+): (.*)", line)
            if found is None:
                self.assertRegex(line, r": note: .* defined here$")
                continue
            said.setdefault(int(found[1]), []).append(found[2])
        for number, line in enumerate(USE.read_text().splitlines(), 1):
            heard = " ".join(said.pop(number, []))
            wanted = re.search(r"  # (error|reveals (.*))$", line)
            if wanted is None:
                self.assertEqual(heard, "", line)
            elif wanted[2]:
                self.assertRegex(heard, rf'Revealed type is "[^"]*{re.escape(wanted[2])}[^"]*"', line)
                self.assertNotIn("error:", heard)
            else:
                self.assertIn("error:", heard, line)
        self.assertEqual(said, {})

    def test_the_package_says_that_it_is_typed(self):
        self.assertTrue((ROOT / "python/vramwise/py.typed").is_file())


if __name__ == "__main__":
    unittest.main()
