"""`pip install ./python` in a fresh environment without a network, and what comes of it.

VRAMWISE_BUILD says where the libraries were built. pip is taken from wherever this Python has it: the
module, or the wheel that ensurepip carries.
"""
import email
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import venv
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from world import BUILD, DATA, ROOT  # noqa: E402


def find_pip():
    """What to put before sys.path so that pip can be imported; None: there is none."""
    try:
        import ensurepip
        bundled = glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled/pip-*.whl"))
        bundled += glob.glob("/usr/share/python-wheels/pip-*.whl")
    except ImportError:
        bundled = []
    if bundled:
        return bundled[0]
    found = importlib.util.find_spec("pip")
    return str(Path(found.origin).parent.parent) if found and found.origin else None


PIP = find_pip()


@unittest.skipIf(PIP is None, "this Python has no pip (Debian: python3-venv)")
class Package(unittest.TestCase):
    """In an environment of its own."""

    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory(prefix="vramwise-test-")
        cls.path = Path(cls._folder.name)
        venv.create(cls.path / "venv", with_pip=False, symlinks=True)
        cls.python = cls.path / "venv/bin/python"
        cls.environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(("PYTHON", "VRAMWISE", "PIP"))}
        cls.environment.update(VRAMWISE_BUILD_DIR=str(BUILD), HOME=str(cls.path),
                               PIP_DISABLE_PIP_VERSION_CHECK="1", PYTHONDONTWRITEBYTECODE="1")

    @classmethod
    def tearDownClass(cls):
        cls._folder.cleanup()

    def call(self, *command, **environment):
        """Runs a command in the temporary folder; what it wrote."""
        done = subprocess.run([str(word) for word in command], cwd=self.path, text=True,
                              env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.strip()

    def pip(self, *arguments):
        """pip, with the environment's Python."""
        return self.call(self.python, "-m", "pip", *arguments, PYTHONPATH=PIP)

    def test_installed_it_works_without_the_checkout_and_goes_again(self):
        self.pip("install", "--no-index", "--no-cache-dir", ROOT / "python")
        shown = self.call(self.python, "-c", f"""
import vramwise, vramwise.torch, os
from vramwise import _paths
print(vramwise.__version__, vramwise.load({str(DATA / 'recordings/streams.native.pickle.xz')!r}).events > 0)
print(os.path.commonpath([{str(self.path)!r}, vramwise.__file__]) == {str(self.path)!r})
print(_paths.is_checkout(), *sorted(path.name for path in _paths.adapter_folder().glob("*.h")))
print(vramwise.torch.install("pytorch"))
libraries = [line.split()[-1] for line in open("/proc/self/maps") if "libvramwise" in line]
print(all(os.path.dirname(name).endswith("vramwise/_lib") for name in libraries), bool(libraries))
""", VRAMWISE_BUILD_DIR="")
        version = (ROOT / "include/vramwise/version.h").read_text().split('_STRING "')[1].split('"')[0]
        lines = shown.splitlines()
        self.assertEqual(lines[:2], [f"{version} True", "True"])
        self.assertTrue(lines[2].startswith("False ") and "vramwise_torch.h" in lines[2], lines)
        self.assertEqual(lines[3:], ["pytorch", "True True"])
        self.assertIn(version, self.call(self.path / "venv/bin/vramwise", "--version"))
        (self.path / "pages").mkdir()
        self.assertEqual(self.call(
            self.path / "venv/bin/vramwise", "run", "--", self.python, "-c",
            "import vramwise, torch; torch._C.allocate(1); print(len(vramwise.jobs()))",
            PYTHONPATH=str(ROOT / "tests/support/fake_torch_watch"),
            VRAMWISE_LIVE_DIR=str(self.path / "pages")), "1")
        self.pip("uninstall", "-y", "vramwise")
        self.assertEqual([path for path in (self.path / "venv").rglob("*vramwise*")], [])

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a folder to another user")
    def test_what_others_put_where_a_checkout_would_have_it_is_not_used(self):
        shared = self.path / "for_all"
        shutil.copytree(ROOT / "python/vramwise", shared / "python/vramwise",
                        ignore=shutil.ignore_patterns("__pycache__"))
        names = ("include/vramwise", "adapters/torch", "build")
        for name in names:
            (shared / name).mkdir(parents=True)
        shown = ("from vramwise import _paths as p; print(*(int(str(f).startswith(str(p.PACKAGE))) for f in "
                 "(p.include_folder(), p.adapter_folder(), p.prebuilt_folder(), *p.library_folders())))")

        def are_inside():
            return self.call(self.python, "-c", shown, PYTHONPATH=str(shared / "python"))

        self.assertEqual(are_inside(), "0 0 0 0")
        for name in names:
            top = shared / name.split("/", maxsplit=1)[0]
            os.chown(top, 65534, -1)
            self.assertEqual(are_inside(), "1 1 1 1", name)
            os.chown(top, os.geteuid(), -1)
        for place in (shared / "python/vramwise", *(shared / name.split("/", maxsplit=1)[0] for name in names)):
            os.chown(place, 65534, -1)  # all of one user's
        self.assertEqual(are_inside(), "0 0 0 0")

    def backend(self, call):
        """Calls the backend as pip does; the file it made."""
        return self.path / self.call(
            self.python, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); "
            f"import build_backend; print(build_backend.{call}('.'))").splitlines()[-1]

    def test_the_wheel_of_this_build_serves_its_user_and_is_safe_to_ship(self):
        wheel = self.backend("build_wheel")
        self.assertIn("every command works here", self.call(
            sys.executable, ROOT / "tests/install/use.py", wheel,
            DATA / "recordings/streams.native.pickle.xz"))
        self.call(sys.executable, ROOT / "tools/check_shipped.py", wheel)
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
            about = email.message_from_bytes(archive.read(name))
            (name,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
            self.assertEqual(archive.read(name).decode(),
                             "[pytest11]\nvramwise = vramwise.pytest_plugin\n")
            self.assertIn("vramwise/pytest_plugin.py", archive.namelist())
            self.assertIn("vramwise/py.typed", archive.namelist())
        self.assertEqual((about["Name"], about["Requires-Python"], about["License"]),
                         ("vramwise", ">=3.9", "MIT"))
        self.assertIn("License :: OSI Approved :: MIT License", about.get_all("Classifier"))
        self.assertEqual(about["Description-Content-Type"], "text/markdown")
        self.assertIn("# vramwise", about.get_payload())

    def test_an_editable_install_points_at_the_checkout(self):
        with zipfile.ZipFile(self.backend("build_editable")) as wheel:
            content = wheel.read("__editable__.vramwise.pth").decode().strip()
            self.assertEqual(content, str(ROOT / "python"))
            self.assertIsNone(wheel.testzip())
            (name,) = (name for name in wheel.namelist() if name.endswith("/scripts/vramwise"))
            program = self.path / "editable-vramwise"
            program.write_bytes(wheel.read(name))
        program.chmod(0o755)
        entered = "import sys; print(any('Wait' in type(each).__name__ for each in sys.meta_path))"
        self.assertEqual(self.call(program, "run", "--", sys.executable, "-c", entered), "True")

    def test_the_source_distribution_has_what_cmake_needs(self):
        with tarfile.open(self.backend("build_sdist")) as tar:
            names = tar.getnames()
            tar.extractall(self.path / "source")
        self.assertEqual([name for name in names if "__pycache__" in name or "/build/" in name], [])
        source = next((self.path / "source").iterdir())
        self.call("cmake", "-S", source / "native", "-B", self.path / "configured",
                  "-DVW_TESTS=OFF", "-DVW_BENCH=OFF")
        self.assertTrue((source / "vramwise/torch/_install.py").is_file())

    def test_without_cmake_the_message_says_so(self):
        code = f"""
import sys; sys.path.insert(0, {str(ROOT / 'python')!r})
import build_backend
try: build_backend.build_wheel('.')
except build_backend.BuildError as error: print(error)
"""
        shown = self.call(self.python, "-c", code, PATH=str(self.path))
        self.assertIn("cmake is needed to build the libraries and is not in PATH", shown)


if __name__ == "__main__":
    unittest.main()
