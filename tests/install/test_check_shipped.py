"""What tools/check_shipped.py finds in files that were linked or compiled otherwise than ours."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
GOOD = ("-O2", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fPIE", "-pie",
        "-Wl,-z,relro,-z,now,-z,noexecstack")
SOURCE = r"""
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    char text[64];
    (void)argc;
    strcpy(text, argv[0]);
    return puts(text) < 0;
}
"""


class Files(unittest.TestCase):
    """Each has one fault, which is named."""

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="vramwise-test-")
        self.addCleanup(self._folder.cleanup)
        self.path = Path(self._folder.name)
        (self.path / "program.c").write_text(SOURCE, encoding="utf-8")
        self.cc = os.environ.get("CC") or shutil.which("cc")

    def compile(self, *flags, name="program"):
        """A program, with the flags after ours."""
        made = self.path / name
        subprocess.run([self.cc, "-w", *GOOD, *flags, "-o", made, self.path / "program.c"], check=True)
        return made

    def check(self, *words):
        """(exit status, what was said)"""
        done = subprocess.run([sys.executable, ROOT / "tools/check_shipped.py", *words], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def assert_fault(self, expected, *flags):
        """That these flags make just this fault."""
        status, said = self.check(self.compile(*flags))
        self.assertEqual(status, 1, said)
        self.assertIn(expected, said)
        self.assertIn("1 ELF files, 1 faults", said)

    def test_a_file_with_all_of_it_has_no_fault(self):
        self.assertEqual(self.check(self.compile())[0], 0)
        self.assertEqual(self.check(self.compile("-Wl,-rpath,$ORIGIN,--enable-new-dtags"))[0], 0)

    def test_other_search_paths(self):
        for path in ("/tmp", "$ORIGIN:/tmp", "$ORIGIN:", ":$ORIGIN"):
            self.assert_fault("RUNPATH is ", f"-Wl,--enable-new-dtags,-rpath,{path}")
        self.assert_fault("RPATH is '$ORIGIN'", "-Wl,--disable-new-dtags,-rpath,$ORIGIN")

    def test_a_fixed_address(self):
        self.assert_fault("not position-independent", "-fno-pie", "-no-pie")

    def test_relocations_that_stay_writable(self):
        self.assert_fault("no RELRO", "-Wl,-z,norelro")
        self.assert_fault("no BIND_NOW", "-Wl,-z,lazy")

    def test_an_executable_stack(self):
        self.assert_fault("stack is executable", "-Wl,-z,execstack")

    def test_a_compiler_that_was_not_asked(self):
        self.assert_fault("no stack protector", "-fno-stack-protector")
        self.assert_fault("without _FORTIFY_SOURCE", "-U_FORTIFY_SOURCE")

    def test_a_c_library_that_is_too_old(self):
        status, said = self.check("--glibc", "2.2", self.compile())
        self.assertEqual(status, 1)
        self.assertIn("newer than 2.2", said)

    def test_a_library_that_nobody_brings(self):
        library = self.path / "libother.so.1"
        (self.path / "other.c").write_text("int other(void) { return 1; }", encoding="utf-8")
        subprocess.run([self.cc, "-shared", "-fPIC", "-Wl,-soname,libother.so.1", "-o", library,
                        self.path / "other.c"], check=True)
        made = self.compile("-Wl,--no-as-needed", library)
        status, said = self.check("--glibc", "9.9", made)
        self.assertEqual(status, 1)
        self.assertIn("needs libother.so.1", said)

    def test_a_wheel_whose_record_is_wrong(self):
        wheel = self.path / "x-1-py3-none-manylinux_9_9_x86_64.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.write(self.compile(), "x/program")
            archive.writestr("x-1.dist-info/WHEEL", "Tag: py3-none-manylinux_9_9_x86_64\n")
            archive.writestr("x-1.dist-info/RECORD", "x/program,sha256=AAAA,1\nx-1.dist-info/RECORD,,\n")
        status, said = self.check(wheel)
        self.assertEqual(status, 1)
        self.assertIn("RECORD does not list the files", said)
        self.assertIn("another digest for x/program", said)

    def test_a_version_that_no_glibc_has_by_number(self):
        made = self.compile("-Wl,-z,pack-relative-relocs")
        if b"GLIBC_ABI_DT_RELR" not in made.read_bytes():
            self.skipTest("this linker does not know packed relocations")
        status, said = self.check("--glibc", "9.9", made)
        self.assertEqual(status, 1)
        self.assertIn("GLIBC_ABI_DT_RELR", said)

    def test_a_file_that_is_cut_short(self):
        made = self.compile()
        made.write_bytes(made.read_bytes()[:100])
        self.assertEqual(self.check(made)[0], 1)
        self.assertEqual(self.check(self.path / "nothing"), (1, f"shipped: cannot be read: [Errno 2] No such "
                         f"file or directory: '{self.path / 'nothing'}'\n"))

    def test_nothing_to_look_at(self):
        status, said = self.check(self.path / "program.c")
        self.assertEqual(status, 1)
        self.assertIn("no ELF file", said)


if __name__ == "__main__":
    unittest.main()
