"""Adapters that came with the wheel: which one is taken, and that none is that does not fit."""
import json
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from vramwise.torch import _interface  # noqa: E402
from world import World, compiler  # noqa: E402

# A class with a table, by the names that PyTorch's and ours have.
CLASS = """
#include <string>
namespace {spaces} {{
struct Base {{
    virtual ~Base() = default;
    virtual void *allocate(unsigned long) = 0;
    virtual int left_alone(const std::string &) const {{ return 1; }}
    {more}
}};
struct {name} : Base {{
    void *allocate(unsigned long) override {{ return nullptr; }}
    {changes}
}};
Base *made() {{ return new {name}; }}
}}
"""
NATIVE = ("c10::cuda::CUDACachingAllocator::Native", "NativeCachingAllocator")
ADAPTER = ("vramwise_torch", "Adapter")
INSTALL = """
    import vramwise.torch
    answer = vramwise.torch.install({})
    print(answer)
    print(answer.file)
    print(answer.reason)
"""


def compiled(target, spaces, name, more="", changes="", flags=("-shared", "-fPIC", "-fvisibility=hidden")):
    """A library with that class."""
    source = target.with_suffix(".cpp")
    source.write_text(CLASS.format(spaces=spaces, name=name, more=more, changes=changes))
    subprocess.run([compiler(), "-std=c++17", *flags, "-o", str(target), str(source)], check=True)


class Prebuilt(unittest.TestCase):
    """Each in a world of its own, whose torch has a table of functions."""

    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)
        self.library = self.world.torch / "lib/libc10_cuda.so"
        self.native()

    def native(self, **changes):
        """PyTorch's own allocator, with its table."""
        self.library.unlink(missing_ok=True)
        compiled(self.library, *NATIVE, **changes)

    def ship(self, **changes):
        """Makes the adapter that is compiled here one that came with the wheel."""
        self.world.run(INSTALL.format(""))
        self.world.prebuilt.mkdir()
        file = self.world.prebuilt / "adapter-2.11-abi1.so"
        shutil.move(self.world.adapters()[0], file)
        shutil.rmtree(self.world.cache)
        self.world.counted.unlink()
        table = self.world.path / "table.so"
        compiled(table, *ADAPTER)
        entry = {"file": file.name, "torch": "2.11.0", "cxx11_abi": True, "is_of_release": True,
                 "methods": _interface.methods(table, _interface.ADAPTER),
                 "headers": _interface.header_digest(self.world.torch / "include"), **changes}
        (self.world.prebuilt / "adapters.json").write_text(json.dumps({"adapters": [entry]}))
        return file

    def install(self, **environment):
        """What install() answers, by line, where there is no compiler."""
        shown, errors = self.world.run(INSTALL.format(""), CXX="no-such-compiler", **environment)
        return shown.splitlines(), errors

    def test_without_a_compiler_the_one_that_fits_is_used(self):
        file = self.ship()
        lines, errors = self.install()
        self.assertEqual(lines, ["vramwise via adapter", str(file), "same headers and the same 4 "
                                 "functions as PyTorch 2.11.0+cu130"])
        self.assertEqual(errors, "")
        self.assertEqual(self.world.compilations(), 0)

    def test_another_build_of_the_same_headers_fits(self):
        self.ship()
        lines, _ = self.install(FAKE_TORCH_VERSION="2.11.0a0+gitabc")
        self.assertEqual(lines[0], "vramwise via adapter")

    def test_another_order_of_functions_does_not_fit(self):
        self.ship()
        for changes, text in (
                ({"more": "virtual void fresh() {}"}, "the adapter has 4 functions and PyTorch 5"),
                ({"changes": "int left_alone(const std::string &) const override { return 2; }"},
                 None)):  # who overrides it does not matter
            self.native(**changes)
            lines, errors = self.install()
            if text is None:
                self.assertEqual(lines[0], "vramwise via adapter")
            else:
                self.assertTrue(lines[0].startswith("pytorch ("), lines)
                self.assertIn(text, errors)

    def test_other_parameters_do_not_fit(self):
        file = self.ship()
        index = json.loads((self.world.prebuilt / "adapters.json").read_text())
        methods = index["adapters"][0]["methods"]
        methods[methods.index("allocate(unsigned long)")] = "allocate(unsigned long, bool)"
        (self.world.prebuilt / "adapters.json").write_text(json.dumps(index))
        _, errors = self.install()
        self.assertIn(f"{file.name}: function 2 is allocate(unsigned long, bool) in the adapter and "
                      "allocate(unsigned long) in PyTorch", errors)

    def test_other_headers_do_not_fit_and_comments_do(self):
        self.ship()
        header = self.world.torch / "include/c10/cuda/CUDACachingAllocator.h"
        text = header.read_text()
        header.write_text("// said another way\n" + text.replace(" ", "  "))
        self.assertEqual(self.install()[0][0], "vramwise via adapter")
        header.write_text(text + "struct DeviceStats { int one_more; };\n")
        lines, errors = self.install()
        self.assertTrue(lines[0].startswith("pytorch ("), lines)
        self.assertIn("the headers of PyTorch 2.11.0+cu130 are not those it was compiled against",
                      errors)

    def test_the_guard_around_installed_headers_is_no_difference(self):
        self.ship()
        header = self.world.torch / "include/c10/cuda/CUDACachingAllocator.h"
        guard = "!defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)"
        header.write_text(f"#if {guard}\n{header.read_text()}\n#else\n#error \"This file should not be "
                          "included when either TORCH_STABLE_ONLY or TORCH_TARGET_VERSION is defined.\"\n"
                          f"#endif  // {guard}\n")
        self.assertEqual(self.install()[0][0], "vramwise via adapter")

    def test_without_headers_only_the_same_release_fits(self):
        self.ship()
        shutil.rmtree(self.world.torch / "include")
        self.assertEqual(self.install()[0][0], "vramwise via adapter")
        _, errors = self.install(FAKE_TORCH_VERSION="2.11.1+cu130")
        self.assertIn("it is for PyTorch 2.11.0, and there are no headers to compare", errors)

    def test_without_headers_one_made_before_the_release_does_not_fit(self):
        self.ship(is_of_release=False)
        self.assertEqual(self.install()[0][0], "vramwise via adapter")
        shutil.rmtree(self.world.torch / "include")
        self.assertIn("it was compiled before PyTorch 2.11 was released", self.install()[1])

    def test_another_abi_or_version_is_not_looked_at(self):
        self.ship(cxx11_abi=False)
        self.assertIn("no prebuilt adapter is for PyTorch 2.11 with C++ ABI 1", self.install()[1])

    def test_what_cannot_be_compared_is_compiled(self):
        self.ship()
        subprocess.run(["strip", str(self.library)], check=True)
        lines, errors = self.install()
        self.assertTrue(lines[0].startswith("pytorch ("), lines)
        self.assertIn("does not name its allocator's table", errors)
        for content in (b"", b"\x7fELF\x02\x01" + 100 * b"\xff", self.library.read_bytes()[:5000]):
            self.library.write_bytes(content)
            self.assertIn("its functions cannot be compared", self.install()[1])
        self.native()
        shutil.rmtree(self.world.torch / "include" / "c10")
        (self.world.prebuilt / "adapters.json").write_text("{")
        self.assertIn("adapters.json cannot be read", self.install()[1])

    def test_where_none_fits_it_is_compiled_and_the_answer_says_why(self):
        self.ship(methods=["another()"])
        shown, _ = self.world.run(INSTALL.format(""))
        self.assertIn("compiled on this machine: adapter-2.11-abi1.so: function 0 is another() in the "
                      "adapter", shown.splitlines()[2])
        self.assertEqual(self.world.compilations(), 1)

    def test_one_that_cannot_be_loaded_is_replaced_by_compiling(self):
        file = self.ship()
        file.write_bytes(b"not a library")
        shown, _ = self.world.run(INSTALL.format(""))
        self.assertIn("cannot be loaded", shown.splitlines()[2])


class Settings(unittest.TestCase):
    """How new settings reach the adapter where PyTorch does not pass them on."""

    def test_up_to_2_9_the_function_that_takes_them_does(self):
        world = World()
        self.addCleanup(world.close)
        code = """
            import torch
            heard = []
            def take(conf): heard.append(conf)
            torch._C._cuda_cudaCachingAllocator_set_allocator_settings = staticmethod(take)
            import vramwise.torch
            vramwise.torch.install()
            torch._C._cuda_cudaCachingAllocator_set_allocator_settings("max_split_size_mb:64")
            print(heard, vramwise.torch.stats()["configured"])
            try:
                torch._C._cuda_cudaCachingAllocator_set_allocator_settings("wrong")
            except ValueError as error:
                print(error)
            """
        shown, _ = world.run(code, FAKE_ADAPTER_WITHOUT_HOOK="1")
        self.assertEqual(shown.splitlines(), ["['max_split_size_mb:64'] max_split_size_mb:64",
                                              "no such option"])
        shown, _ = world.run(code)
        self.assertEqual(shown.splitlines()[0].rstrip(), "['max_split_size_mb:64']")


if __name__ == "__main__":
    unittest.main()
