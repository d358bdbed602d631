#!/usr/bin/env python3
"""test_environment.py PROGRAM FAKE_CUDA [unittest arguments] - a setuid program takes nothing from the environment.

Variables choose which driver library is loaded. A program that runs with another user's or group's rights must not
let its caller choose: the kernel marks it (AT_SECURE), and secure_getenv() answers nothing. A copy of the program
that is setgid for another group of this user is such a program.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = FAKE_CUDA = ""


def another_group():
    if os.geteuid() == 0:
        return 65534
    return next((group for group in os.getgroups() if group != os.getegid()), None)


class Environment(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="environment-test-")
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        os.chmod(self.here, 0o755)
        self.program = self.here / "vramwise"
        shutil.copy(PROGRAM, self.program)

    def gpus(self, **variables):
        result = subprocess.run([self.program, "top", "--once", "--json"], capture_output=True, text=True, timeout=60, check=False,
                                env={"PATH": os.environ["PATH"], "LC_ALL": "C", "VRAMWISE_LIVE_DIR": str(self.here), **variables})
        return [gpu["name"] for gpu in json.loads(result.stdout)["gpus"]]

    def make_setgid(self):
        group = another_group()
        if group is None:
            self.skipTest("this user has one group only")
        os.chown(self.program, -1, group)
        self.program.chmod(0o2755)
        if os.statvfs(self.here).f_flag & os.ST_NOSUID:
            self.skipTest("no program is setgid on this file system")

    def test_a_variable_chooses_the_driver_of_an_ordinary_program(self):
        self.assertNotEqual(self.gpus(VRAMWISE_NVML=FAKE_CUDA), [])

    def test_no_variable_chooses_the_driver_of_a_setgid_program(self):
        self.make_setgid()
        real = self.gpus()
        self.assertEqual(self.gpus(VRAMWISE_NVML=FAKE_CUDA, VRAMWISE_CUDA_DRIVER=FAKE_CUDA, VRAMWISE_AMD_SMI=FAKE_CUDA), real)


if __name__ == "__main__":
    PROGRAM, FAKE_CUDA = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
