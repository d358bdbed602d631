"""vramwise.torch.install(), from a stand-in for torch to a real compiler and back."""
import os
import shutil
import struct
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from world import World, compiler  # noqa: E402

INSTALL = "import vramwise.torch; print(vramwise.torch.install({}))"

# As much of torch.optim as we look at.
FAKE_OPTIM = """
import sys, types
import vramwise.torch, torch

hooks = []


class Tensor:
    device = types.SimpleNamespace(type="cuda")

    def __init__(self, address):
        self.address = address

    def untyped_storage(self):
        return types.SimpleNamespace(data_ptr=lambda: self.address)


class Optimizer:
    def __init__(self, parameters):
        self.state, self.param_groups = {}, []
        self.add_param_group({"params": parameters})

    def add_param_group(self, group):
        self.param_groups.append(group)

    def step(self):
        for hook in hooks:
            hook(self, (), {})


torch.optim = types.SimpleNamespace(Optimizer=Optimizer)
torch.compiler = types.SimpleNamespace(is_compiling=lambda: False)
sys.modules["torch.optim.optimizer"] = types.SimpleNamespace(
    register_optimizer_step_post_hook=hooks.append)
"""


class Installing(unittest.TestCase):
    """Each in a world of its own."""

    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)

    def install(self, arguments="", **environment):
        """What one call returns, as text, and what it wrote to standard error."""
        return self.world.run(INSTALL.format(arguments), **environment)

    def test_the_adapter_is_compiled_once_and_kept(self):
        shown, errors = self.install()
        self.assertEqual(shown, "vramwise via adapter")
        self.assertRegex(errors, r"^vramwise: compiling the adapter for torch 2\.11\.0, once; about "
                                 r"30 s\nvramwise: compiled the adapter after \d+ s$")
        self.assertEqual(self.install(), ("vramwise via adapter", ""))
        self.assertEqual(self.world.compilations(), 1)
        self.assertEqual(self.world.cache.stat().st_mode & 0o777, 0o700)
        self.assertEqual([path for path in self.world.cache.iterdir()
                          if path.suffix not in (".so", ".lock")], [])
        self.assertEqual([path.stat().st_mode & 0o777 for path in self.world.cache.iterdir()],
                         [0o600, 0o600])

    def test_name_and_gate_reach_the_adapter(self):
        for arguments, told in (("'vramwise:rescue'", "vramwise:rescue 0"),
                                ("'torch', gate=False", "torch 1")):
            shown, _ = self.world.run(INSTALL.format(arguments)
                                      + "; print(vramwise.torch.stats()['installed'])")
            self.assertEqual(shown.splitlines()[1].rsplit(" ", 1)[0], told)

    def test_spill_reaches_the_adapter_by_argument_and_by_environment(self):
        told = "; print(vramwise.torch.stats()['spill'])"
        for arguments, environment, wanted in (
                ("spill='3GiB'", {}, 3 << 30), ("spill=4096", {}, 4096), ("spill=0", {}, 0),
                ("", {"VRAMWISE_SPILL": "1.5GiB"}, 3 << 29), ("", {"VRAMWISE_SPILL": ""}, 0),
                ("spill=0", {"VRAMWISE_SPILL": "1GiB"}, 0),
                ("'torch'", {"VRAMWISE_SPILL": "1GiB"}, 0)):
            shown, _ = self.world.run(FAKE_OPTIM + INSTALL.format(arguments) + told, **environment)
            self.assertEqual(shown.splitlines()[1], str(wanted), arguments)

    def test_keep_free_reaches_the_adapter_by_argument_and_by_environment(self):
        told = "; print(repr(vramwise.torch.stats()['keep_free']))"
        for arguments, environment, wanted in (
                ("keep_free='2GiB'", {}, "2GiB"), ("keep_free=4096", {}, "4096"),
                ("keep_free='5%'", {}, "5%"), ("keep_free=0", {}, ""), ("keep_free='0%'", {}, ""),
                ("", {}, ""), ("", {"VRAMWISE_KEEP_FREE": "5%"}, "5%"),
                ("", {"VRAMWISE_KEEP_FREE": ""}, ""),
                ("keep_free=0", {"VRAMWISE_KEEP_FREE": "5%"}, ""),
                ("'torch'", {"VRAMWISE_KEEP_FREE": "5%"}, "")):
            shown, _ = self.world.run(INSTALL.format(arguments) + told, **environment)
            self.assertEqual(shown.splitlines()[1], repr(wanted), arguments)

    def test_keep_free_is_refused_where_it_makes_no_sense(self):
        code = """
            import vramwise.torch
            for arguments in (dict(allocator="torch", keep_free="1GiB"), dict(keep_free="much"),
                              dict(keep_free="101%"), dict(keep_free=-1), dict(keep_free=True),
                              dict(keep_free=0.05), dict(allocator="pytorch", keep_free="5%")):
                try:
                    vramwise.torch.install(**arguments)
                except ValueError as error:
                    print(error)
            """
        shown, _ = self.world.run(code)
        lines = shown.splitlines()
        self.assertEqual(len(lines), 7, shown)
        self.assertIn("not for 'torch'", lines[0])
        for line, what in zip(lines[1:6], ("'much'", "'101%'", "-1", "True", "0.05")):
            self.assertIn(f"expected, not {what}", line)
        self.assertIn("not for 'pytorch'", lines[6])

    def test_spill_is_refused_where_nothing_can_be_spilled(self):
        code = """
            import vramwise.torch
            for arguments in (dict(allocator="torch", spill="1GiB"), dict(spill="much"),
                              dict(spill=-1), dict(spill="16"), dict(allocator="pytorch", spill=1)):
                try:
                    vramwise.torch.install(**arguments)
                except ValueError as error:
                    print(error)
            try:
                vramwise.torch.spill(None)
            except vramwise.VramwiseError as error:
                print(error)
            """
        lines = self.world.run(code)[0].splitlines()
        self.assertEqual(len(lines), 6)
        self.assertIn("not for 'torch'", lines[0])
        self.assertIn("spill: 'much' is no size", lines[1])
        self.assertIn("spill: '-1' is no size", lines[2])
        self.assertIn("spill: expected a size with a unit, such as 24GiB, not '16'", lines[3])
        self.assertIn("not for 'pytorch'", lines[4])
        self.assertIn("nothing is spilled here", lines[5])

    def test_an_optimizer_s_tensors_are_advised_once_and_its_steps_are_marked(self):
        code = FAKE_OPTIM + """
vramwise.torch.install(spill="1GiB")
first, second = Optimizer([Tensor(1), Tensor(2)]), Optimizer([Tensor(3)])
first.state = {1: {"step": 5, "exp_avg": Tensor(10)}, 2: {"both": [Tensor(11), Tensor(0)]}}
for _ in range(3):
    first.step()
    second.step()
first.state[3] = {"exp_avg": Tensor(12)}
first.step()
told = vramwise.torch.stats()
print(told["advised"])
print(told["steps"], vramwise.torch.spill(first))
"""
        lines = self.world.run(code)[0].splitlines()
        # Weights as optimizers get them (2: hot), then with the state (1: cold), and all when one is new.
        self.assertEqual(lines[0].split(), ["1:2", "2:2", "3:2", "1:2", "2:2", "10:1", "11:1",
                                            "1:2", "2:2", "10:1", "11:1", "12:1"])
        self.assertEqual(lines[1], "4 3000")

    def test_steps_that_cannot_be_marked_are_told_once_and_the_program_goes_on(self):
        code = FAKE_OPTIM + """
vramwise.torch.install(spill="1GiB")
optimizer = Optimizer([])
for _ in range(3):
    optimizer.step()
print(vramwise.torch.stats()["steps"])
"""
        shown, errors = self.world.run(code, FAKE_ADAPTER_REFUSES_STEPS="1")
        self.assertEqual(shown, "1")
        self.assertEqual(errors.count("may stay in host memory"), 1)
        self.assertIn("VramwiseError: nothing comes back", errors)

    def test_of_a_profiler_the_adapter_knows_and_the_gate_gives_way_once(self):
        code = """
            import ctypes, sys, types, torch
            started = []
            def start(*_): started.append(vramwise.torch.stats()["expects_profilers"])
            for name in ("torch._C._autograd", "torch.autograd.profiler"):
                sys.modules[name] = types.SimpleNamespace(_enable_profiler=start)
            import vramwise.torch
            vramwise.torch.install({})
            from vramwise.torch._state import support_library
            ctypes.c_int.in_dll(support_library(), "fake_gate_state").value = {}
            before = vramwise.torch.stats()["expects_profilers"]
            for _ in range(2):
                sys.modules["torch.autograd.profiler"]._enable_profiler(1)
            sys.modules["torch._C._autograd"]._enable_profiler(1)
            print(before, started,
                  ctypes.c_int.in_dll(support_library(), "fake_gates_removed").value)
            """
        for arguments, gate, removed in (("'vramwise:rescue'", 3, 1),
                                         ("'vramwise:rescue', gate=False", 0, 0),
                                         ("'vramwise'", 1, 1), ("'vramwise'", 2, 1), ("'torch'", 0, 0)):
            shown, errors = self.world.run(code.format(arguments, gate))
            self.assertEqual(shown, f"0 [1, 1, 1] {removed}")
            self.assertEqual(errors.count("gives way to the profiler"), gate > 1)

    def test_what_became_of_the_gate_is_in_the_answer(self):
        code = """
            import ctypes, vramwise.torch
            from vramwise.torch._state import support_library
            installed = vramwise.torch.install()
            state = ctypes.c_int.in_dll(support_library(), "fake_gate_state")
            for state.value in range(5):
                print(installed.gate, "/", vramwise.torch.in_force())
            """
        shown, _ = self.world.run(code)
        self.assertEqual(shown.splitlines(), [
            "off / vramwise via adapter", "waits / vramwise via adapter",
            "arming / vramwise via adapter, launch gate arming",
            "armed / vramwise via adapter, launch gate armed",
            "refused: another tool has CUPTI / vramwise via adapter, launch gate refused: another "
            "tool has CUPTI"])
        shown, _ = self.world.run("import vramwise.torch\nprint(vramwise.torch.in_force().gate)")
        self.assertEqual(shown, "off")

    def test_snapshots_say_whose_they_are(self):
        code = """
            import torch, vramwise.torch
            plain = torch.cuda.memory._snapshot
            torch.cuda.memory._snapshot = lambda *given: dict(plain(), allocator_settings={"given": given})
            vramwise.torch.install("vramwise:tight")
            print(torch.cuda.memory._snapshot(0)["allocator_settings"])
            torch.cuda.memory._snapshot = plain
            """
        shown, _ = self.world.run(code)
        self.assertEqual(shown, "{'given': (0,), 'vramwise_engine': 'vramwise:tight', "
                                "'vramwise_launch_gate': 'off'}")

    def test_where_a_start_cannot_be_seen_the_adapter_asks_always(self):
        for told in ("", """
            import sys, types
            sys.modules["torch._C._autograd"] = types.SimpleNamespace(_enable_profiler=print)
            sys.modules["torch.autograd.profiler"] = types.SimpleNamespace(
                _enable_profiler=print, _is_profiler_enabled=True)
            """):
            code = told + """
            import vramwise.torch
            vramwise.torch.install()
            print(vramwise.torch.stats()["expects_profilers"])
            """
            self.assertEqual(self.world.run(code)[0], "1")

    def test_nccl_is_kept_from_registering_memory_of_many_pieces(self):
        switch = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"
        look = f"; import os; print(os.environ['{switch}'])"
        self.install()  # compiles it
        for allocator, given, left in (("vramwise", "1", "0"), ("vramwise:tight", "True", "0"),
                                       ("vramwise", "no", "no"), ("torch", "1", "1")):
            with self.subTest(allocator=allocator, given=given):
                shown, errors = self.world.run(INSTALL.format(repr(allocator)) + look, **{switch: given})
                self.assertEqual(shown.splitlines()[-1], left)
                self.assertEqual("switched off" in errors, left == "0")
                self.assertLessEqual(len(errors.splitlines()), 1)

    def test_quiet_is_quiet(self):
        self.assertEqual(self.install("quiet=True"), ("vramwise via adapter", ""))

    def test_sixteen_processes_compile_once(self):
        started = [self.world.start(INSTALL.format("")) for _ in range(16)]
        for process in started:
            output, errors = process.communicate(timeout=self.world.patience_seconds)
            self.assertEqual((output.strip(), process.returncode), ("vramwise via adapter", 0),
                             errors)
        self.assertEqual(self.world.compilations(), 1)

    def test_without_flock_they_still_compile_once(self):
        code = """
            import errno, fcntl
            def refuse(*_): raise OSError(errno.ENOLCK, "no locks available")
            fcntl.flock = refuse
            """ + INSTALL.format("")
        started = [self.world.start(code) for _ in range(4)]
        for process in started:
            output, errors = process.communicate(timeout=self.world.patience_seconds)
            self.assertEqual(output.strip(), "vramwise via adapter", errors)
        self.assertEqual(self.world.compilations(), 1)
        self.assertEqual(list(self.world.cache.glob("*.busy")), [])

    def test_a_lock_that_cannot_be_written_is_not_left_behind(self):
        shown, _ = self.world.run("""
            import errno, fcntl, resource, signal
            def refuse(*_): raise OSError(errno.ENOLCK, "no locks available")
            fcntl.flock = refuse
            from vramwise.torch import _cache
            from pathlib import Path
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2, 2))
            try:
                with _cache.lock(Path("it")): print("held")
            except _cache.CacheError as error: print(error)
            print(Path("it.busy").exists())
            """)
        self.assertEqual(shown, "it: cannot be locked: File too large\nFalse")

    def test_a_dead_holder_without_flock_is_passed_over(self):
        code = """
            import errno, fcntl, os, socket, subprocess
            def refuse(*_): raise OSError(errno.ENOLCK, "no locks available")
            fcntl.flock = refuse
            from vramwise.torch import _cache
            from pathlib import Path
            gone = subprocess.Popen(["true"]); gone.wait()
            Path("it.busy").write_text(f"{socket.gethostname()} {gone.pid}")
            with _cache.lock(Path("it"), wait_seconds=5) as beat:
                beat(); print("held")
            Path("it.busy").write_text(f"{socket.gethostname()} {os.getpid()}")
            try:
                with _cache.lock(Path("it"), wait_seconds=0.3): print("taken from the living")
            except _cache.CacheError as error: print(error)
            """
        shown, _ = self.world.run(code)
        self.assertEqual(shown, "held\nanother process has held it.* for 0 s")

    def test_what_is_kept_depends_on_torch_compiler_and_sources(self):
        self.install()
        self.install(CXX=shutil.which(compiler()))
        (self.world.adapter / "fake_adapter.cpp").write_text(
            (self.world.adapter / "fake_adapter.cpp").read_text() + "// changed\n")
        self.install()
        self.install(FAKE_TORCH_VERSION="2.11.0+cu131")
        self.assertEqual(len(self.world.adapters()), 4)

    def test_a_machine_without_compiler_uses_what_was_compiled(self):
        self.install()
        shown, _ = self.install(CXX="no-such-compiler")
        self.assertEqual(shown, "vramwise via adapter")

    def test_without_a_compiler_the_line_says_so_and_pytorchs_own_stays(self):
        shown, errors = self.install(CXX="no-such-compiler")
        self.assertEqual(errors, "vramwise: there is no C++ compiler 'no-such-compiler', which CXX "
                                 "names: PyTorch's own allocator stays")
        self.assertTrue(shown.startswith("pytorch ("), shown)
        empty = self.world.path / "empty"
        empty.mkdir()
        _, errors = self.install(CXX=None, PATH=str(empty))
        self.assertIn("there is no C++ compiler (CXX is not set; g++, c++, clang++ are not in PATH)",
                      errors)

    def test_without_cudas_headers_the_line_says_which(self):
        shutil.rmtree(self.world.cuda / "include/crt")
        code = "from vramwise.torch import _compile; _compile._cuda_folders = lambda _: [" \
               f"_compile.Path({str(self.world.cuda / 'include')!r})]; " + INSTALL.format("")
        _, errors = self.world.run(code)
        self.assertEqual(errors, "vramwise: CUDA's header crt/host_defines.h is missing: set "
                         "CUDA_HOME to a CUDA 13 toolkit, or pip install nvidia-cuda-crt: PyTorch's "
                         "own allocator stays")

    def test_cudas_headers_are_found_in_the_wheels_beside_torch(self):
        for package, names in (("cu13", ["cuda.h", "cuda_runtime_api.h"]),
                               ("elsewhere", ["crt/host_defines.h", "crt/host_config.h"])):
            for name in names:
                target = self.world.site / "nvidia" / package / "include" / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.world.cuda / "include" / name, target)
        shown, errors = self.install(CUDA_HOME=None)
        self.assertEqual(shown, "vramwise via adapter", errors)

    def test_headers_of_another_cuda_are_not_taken(self):
        header = self.world.cuda / "include/cuda_runtime_api.h"
        header.write_text("#define CUDART_VERSION 12080\n")
        code = "from vramwise.torch import _compile; _compile._cuda_folders = lambda _: [" \
               f"_compile.Path({str(header.parent)!r})]; " + INSTALL.format("")
        _, errors = self.world.run(code)
        self.assertIn(f"({header.parent} is of CUDA 12, PyTorch of 13.0)", errors)

    def test_without_torchs_headers_the_line_says_so(self):
        shutil.rmtree(self.world.torch / "include")
        _, errors = self.install()
        self.assertIn("PyTorch's headers are missing: no c10/cuda/CUDACachingAllocator.h", errors)

    def test_for_rocm_it_is_compiled_against_hips_headers_and_said_to_be_untested(self):
        self.world.become_rocm()
        shown, errors = self.install()
        self.assertEqual(shown, "vramwise via adapter", errors)
        self.assertEqual(errors.splitlines()[-1],
                         "vramwise: PyTorch for ROCm: vramwise was never run on an AMD GPU")
        reason = "import vramwise.torch; print(vramwise.torch.install(quiet=True).reason)"
        self.assertEqual(self.world.run(reason)[0],
                         "compiled on this machine: no prebuilt adapter is for ROCm")
        self.assertEqual(self.world.compilations(), 1)

    def test_hips_headers_are_found_in_the_wheels_beside_torch(self):
        self.world.become_rocm()
        (self.world.site / "_rocm_sdk_devel").mkdir()
        os.replace(self.world.rocm / "include", self.world.site / "_rocm_sdk_devel/include")
        shown, errors = self.install(ROCM_HOME=None)
        self.assertEqual(shown, "vramwise via adapter", errors)

    def test_without_hips_headers_or_with_others_the_line_says_so(self):
        self.world.become_rocm()
        include = self.world.rocm / "include"
        only_there = "from vramwise.torch import _compile; _compile._hip_folders = lambda _: [" \
                     f"_compile.Path({str(include)!r})]; " + INSTALL.format("")
        (include / "hip/hip_version.h").write_text("#define HIP_VERSION_MAJOR 5\n")
        _, errors = self.world.run(only_there)
        self.assertIn(f"HIP's header hip/hip_runtime_api.h is missing ({include} is of HIP 5, PyTorch "
                      "of 7.2.53211): set ROCM_HOME to a ROCm 7", errors)
        shutil.rmtree(include)
        _, errors = self.world.run(only_there)
        self.assertIn("HIP's header hip/hip_runtime_api.h is missing: set ROCM_HOME to a ROCm 7", errors)

    def test_a_rocm_with_the_names_of_before_is_refused(self):
        self.world.become_rocm()
        (self.world.torch / "include/c10/hip/HIPCachingAllocator.h").write_text("class HIPAllocator {};\n")
        line = "for ROCm the adapter needs PyTorch 2.11 or newer, and this is 2.10.0+rocm7.2 " \
               "(no prebuilt adapter is for ROCm)"
        shown, _ = self.install(FAKE_TORCH_VERSION="2.10.0+rocm7.2")
        self.assertEqual(shown, f"pytorch ({line})")
        shown, _ = self.install("fallback='plain'", FAKE_TORCH_VERSION="2.10.0+rocm7.2")
        self.assertEqual(shown, f"pytorch ({line}; and the plain door is for CUDA)")

    def test_what_does_not_compile_leaves_a_log(self):
        (self.world.adapter / "broken.cpp").write_text("int broken = no_such_thing;\n")
        shown, errors = self.install()
        self.assertTrue(shown.startswith("pytorch ("), shown)
        self.assertIn("the adapter does not compile: ", errors)
        self.assertIn("no_such_thing", errors)
        log = Path(errors.split("(the whole log: ")[1].split(")")[0])
        self.assertIn("broken.cpp", log.read_text())
        self.assertEqual(log.stat().st_mode & 0o777, 0o600)
        self.assertEqual([path.name for path in self.world.cache.iterdir()
                          if path.name.startswith("building-")], [])

    def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_folder(self):
        (self.world.path / "file").write_text("")
        shown, errors = self.install(XDG_CACHE_HOME=str(self.world.path / "file"))
        self.assertEqual(shown, "vramwise via adapter")
        instead = self.world.path / f"vramwise-{os.geteuid()}"
        self.assertRegex(errors, rf"(?m)^vramwise: the cache cannot be used \(.*\): the adapter is "
                                 rf"kept in {instead}$")
        self.assertEqual(instead.stat().st_mode & 0o777, 0o700)

    def test_a_link_in_place_of_that_temporary_folder_is_refused(self):
        (self.world.path / "file").write_text("")
        other = self.world.path / "other"
        other.mkdir(mode=0o700)
        instead = self.world.path / f"vramwise-{os.geteuid()}"
        # A link that appears after any look at the name, and before the folder is made.
        shown, errors = self.world.run(f"""
            import os, vramwise.torch
            mkdir = os.mkdir
            def late_mkdir(path, *mode):
                if str(path) == {str(instead)!r}: os.symlink({str(other)!r}, path)
                return mkdir(path, *mode)
            os.mkdir = late_mkdir
            print(vramwise.torch.install())
            """, XDG_CACHE_HOME=str(self.world.path / "file"))
        self.assertTrue(shown.startswith("pytorch ("), shown)
        self.assertIn(f"; and {instead} is a link", errors)
        self.assertEqual(list(other.iterdir()), [])

    def test_a_cache_behind_a_link_is_used_by_its_own_path(self):
        real = self.world.path / "real"
        real.mkdir(mode=0o700)
        (self.world.path / "link").symlink_to(real)
        shown, _ = self.world.run("""
            from vramwise.torch import _cache
            print(_cache.folder())
            """, XDG_CACHE_HOME=str(self.world.path / "link"))
        self.assertEqual(shown, str(real / "vramwise"))

    def test_a_cache_that_others_can_write_to_is_refused(self):
        self.world.cache.mkdir(parents=True)
        self.world.cache.chmod(0o777)
        _, errors = self.install()
        self.assertIn("is writable by others (mode 0777)", errors)
        self.assertEqual(self.world.adapters(), [])

    def test_a_cache_in_a_folder_that_others_can_write_to_is_refused(self):
        self.world.cache.mkdir(parents=True, mode=0o700)
        self.world.cache.parent.chmod(0o777)
        _, errors = self.install()
        self.assertIn(f"{self.world.cache.parent} is writable by others (mode 0777)", errors)
        self.assertEqual(self.world.adapters(), [])
        self.world.cache.parent.chmod(0o1777)  # as /tmp: others cannot move what is ours
        _, errors = self.install()
        self.assertNotIn("writable by others", errors)

    def test_a_cache_in_a_folder_of_a_group_with_others_is_refused(self):
        folder = self.world.cache.parent
        self.world.cache.mkdir(parents=True, mode=0o700)
        folder.chmod(0o770)
        if folder.stat().st_gid == 0:  # root's group is as root
            os.chown(folder, -1, 12345)
        for name, members, others, is_refused in (("me", [], [], False), ("me", ["me"], [], False), ("me", ["me", "you"], [], True),
                                                  ("staff", [], [], True), (None, [], [], True), ("me", [], ["you"], True)):
            with self.subTest(name=name, members=members, others=others):
                shown, _ = self.world.run(f"""
                    import grp, os, pwd, types
                    import vramwise.torch
                    from pathlib import Path
                    from vramwise.torch import _cache
                    users = [types.SimpleNamespace(pw_name=name, pw_gid=os.stat({str(folder)!r}).st_gid) for name in ["me"] + {others!r}]
                    pwd.getpwuid = lambda _: users[0]
                    pwd.getpwall = lambda: users
                    groups = [{name!r}] * ({name!r} is not None)
                    def find(number):
                        if not groups: raise KeyError(number)
                        return types.SimpleNamespace(gr_name=groups[0], gr_mem={members!r})
                    grp.getgrgid = find
                    try: _cache._check_parents(Path({str(self.world.cache)!r})); print("good")
                    except _cache.CacheError as error: print(error)
                    """)
                self.assertEqual(shown, f"{folder} is writable by others (mode 0770)" if is_refused else "good")

    def test_a_cache_in_a_folder_with_an_access_list_is_refused(self):
        folder = self.world.cache.parent
        self.world.cache.mkdir(parents=True, mode=0o700)
        entries = ((0x01, 7, -1), (0x02, 7, 12345), (0x04, 0, -1), (0x10, 7, -1), (0x20, 0, -1))  # user 12345 may write
        try:
            os.setxattr(folder, "system.posix_acl_access",
                        struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries))
        except OSError as error:
            self.skipTest(f"no access lists here: {error}")
        shown, _ = self.world.run(f"""
            import vramwise.torch
            from pathlib import Path
            from vramwise.torch import _cache
            _cache._has_others = lambda _: False
            try: _cache._check_parents(Path({str(self.world.cache)!r})); print("good")
            except _cache.CacheError as error: print(error)
            """)
        self.assertEqual(shown, f"{folder} is writable by others (mode 0770)")

    def test_an_adapter_that_others_can_write_to_is_made_again(self):
        self.install()
        (made,) = self.world.adapters()
        for mode in 0o777, 0o620:
            made.write_bytes(b"not ours any more")
            made.chmod(mode)
            self.install()
            self.assertNotEqual(made.read_bytes(), b"not ours any more")
            self.assertEqual(made.stat().st_mode & 0o777, 0o600)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a folder to another user")
    def test_a_cache_of_another_user_is_refused(self):
        self.world.cache.mkdir(parents=True, mode=0o700)
        os.chown(self.world.cache, 12345, -1)
        _, errors = self.install()
        self.assertIn("belongs to user 12345, not to 0", errors)
        self.assertEqual(self.world.adapters(), [])

    def test_what_killed_builds_left_is_taken_away(self):
        old, young = self.world.cache / "building-old", self.world.cache / "building-young"
        for folder in (old, young):
            folder.mkdir(parents=True, mode=0o700)
        self.world.cache.chmod(0o700)
        os.utime(old, (time.time() - 7200, time.time() - 7200))
        self.install()
        self.assertEqual((old.exists(), young.exists()), (False, True))

    def test_an_adapter_that_cannot_be_loaded_is_compiled_again(self):
        self.install()
        kept = self.world.adapters()[0]
        kept.write_text("this is no library")
        os.utime(kept, (time.time() - 100, time.time() - 100))
        shown, errors = self.install()
        self.assertEqual(shown, "vramwise via adapter")
        self.assertIn("it is compiled again", errors)

    def test_an_adapter_for_another_torch_is_not_used(self):
        _, errors = self.install(FAKE_TORCH_VERSION="2.11.1")
        self.assertIn("was compiled for PyTorch 2.11.0, and this is 2.11.1", errors)


class Refusing(unittest.TestCase):
    """Nothing is compiled here: one world will do."""

    @classmethod
    def setUpClass(cls):
        cls.world = World()
        cls.world.run(INSTALL.format("quiet=True"))

    @classmethod
    def tearDownClass(cls):
        cls.world.close()

    def error_of(self, code, **environment):
        """The text of the InstallError that the code raises."""
        shown, _ = self.world.run(f"""
import vramwise.torch, torch
from vramwise.torch import install
try:
    {code}
except vramwise.torch.InstallError as error:
    print(error)
""", **environment)
        return shown

    def test_too_late_is_an_error_that_says_so(self):
        text = self.error_of("torch.cuda.state['initialized'] = True; install()")
        self.assertTrue(text.startswith("too late: CUDA was started before"), text)

    def test_another_allocator_in_force_is_an_error(self):
        text = self.error_of("torch.cuda.memory.given = 1; install()")
        self.assertIn("another allocator was already given to PyTorch", text)

    def test_the_same_name_twice_is_no_error_and_another_one_is(self):
        text = self.error_of("a = install(); assert install() is a; install('torch')")
        self.assertEqual(text, "already installed: vramwise via adapter; a process can have one "
                               "allocator only, so 'torch' was not")
        text = self.error_of("install(); install('pytorch')")
        self.assertIn("already installed", text)

    def test_what_vramwise_run_chose_stands(self):
        shown, errors = self.world.run(INSTALL.format("") + "; print(vramwise.torch.install('torch'))",
                                       VRAMWISE_RUN_ALLOCATOR="vramwise")
        self.assertEqual(shown, "vramwise via adapter\nvramwise via adapter")
        self.assertEqual(errors, "vramwise: vramwise run chose vramwise via adapter; "
                                 "install('torch') changes nothing")

    def test_pytorch_does_nothing(self):
        shown, errors = self.world.run(INSTALL.format("'pytorch'")
                                       + "; import sys; print('torch' in sys.modules)")
        self.assertEqual((shown, errors), ("pytorch\nFalse", ""))

    def test_disabled_does_nothing(self):
        code = INSTALL.format("") + "; import sys; print('torch' in sys.modules)"
        shown, errors = self.world.run(code, VRAMWISE_DISABLE="1")
        self.assertEqual((shown, errors), ("pytorch (VRAMWISE_DISABLE is set)\nFalse", ""))
        self.assertEqual(self.world.run(INSTALL.format(""), VRAMWISE_DISABLE="0")[0],
                         "vramwise via adapter")

    def test_an_unknown_name_is_an_error_that_lists_them(self):
        shown, _ = self.world.run("""
            from vramwise.torch import install
            for arguments in ({"allocator": "jemalloc"}, {"fallback": "hope"}):
                try: install(**arguments)
                except ValueError as error: print(error)
            """)
        self.assertEqual(shown, "allocator is one of pytorch, torch, vramwise, vramwise:rescue, "
                         "vramwise:tight, not 'jemalloc'\n"
                         "fallback is one of pytorch, plain, error, not 'hope'")

    def test_no_gpu_no_cuda_and_a_fork_leave_pytorchs_own_with_one_line(self):
        stays = ": PyTorch's own allocator stays"
        for environment, before, line in (
                ({"FAKE_TORCH_DEVICES": "0"}, "", "there is no GPU here"),
                ({"FAKE_TORCH_CUDA": ""}, "", "PyTorch 2.11.0+cu130 was built without CUDA"),
                ({}, "import torch; torch.cuda.state['bad_fork'] = True; ",
                 "this process was forked from one that had started CUDA, and cannot use it")):
            shown, errors = self.world.run(before + INSTALL.format(""), **environment)
            self.assertEqual((shown, errors), (f"pytorch ({line})", f"vramwise: {line}{stays}"))
            self.assertEqual(self.error_of(f"{before}install(fallback='error')", **environment),
                             line)

    def test_another_version_is_refused_in_one_line(self):
        line = "the adapter needs PyTorch 2.5 or newer, and this is 2.4.1"
        shown, errors = self.world.run(INSTALL.format(""), FAKE_TORCH_VERSION="2.4.1")
        self.assertEqual((shown, errors), (f"pytorch ({line})",
                                           f"vramwise: {line}: PyTorch's own allocator stays"))

    def test_a_version_newer_than_any_known_is_tried_and_said(self):
        shown, errors = self.world.run(INSTALL.format(""), FAKE_TORCH_VERSION="2.99.0",
                                       FAKE_ADAPTER_COMPILED_FOR="2.99.0")
        self.assertEqual(shown, "vramwise via adapter")
        self.assertIn("PyTorch 2.99.0 is newer than any that vramwise was tried with", errors)

    def test_a_function_that_the_adapter_does_not_know_is_named(self):
        broken = self.world.adapter / "abstract.cpp"
        broken.write_text("struct Base { virtual ~Base() = default;\n"
                          "    virtual void brandNew(int) = 0;\n};\n"
                          "struct Derived : Base {};\nBase *made() { return new Derived; }\n")
        try:
            _, errors = self.world.run(INSTALL.format(""), FAKE_TORCH_VERSION="2.98.0")
        finally:
            broken.unlink()
        self.assertIn("PyTorch's allocator has a function that the adapter does not know: brandNew()",
                      errors)

    def test_the_variable_that_pytorch_reads_wins(self):
        shown, _ = self.world.run("""
            from vramwise.torch._install import settings_variable
            for version in ((2, 9), (2, 10)): print(*settings_variable(version))
            """, PYTORCH_ALLOC_CONF="new:1")
        self.assertEqual(shown.splitlines(), ["PYTORCH_CUDA_ALLOC_CONF ", "PYTORCH_ALLOC_CONF new:1"])
        shown, _ = self.world.run("""
            from vramwise.torch._install import settings_variable
            print(*settings_variable((2, 11)))
            """, PYTORCH_ALLOC_CONF="new:1", PYTORCH_CUDA_ALLOC_CONF="old:1")
        self.assertEqual(shown, "PYTORCH_CUDA_ALLOC_CONF old:1")

    def test_the_plain_door_is_taken_where_it_is_asked_for(self):
        code = INSTALL.format("'vramwise:tight', fallback='plain'") + """
import ctypes, torch, vramwise._library
library = vramwise._library.load("vramwise-torch")
print(ctypes.create_string_buffer(64).__class__.in_dll(library, "fake_engine").value.decode(),
      ctypes.create_string_buffer(64).__class__.in_dll(library, "fake_conf").value.decode())
print(*sorted(torch.cuda.memory.given.inside.functions))
try: vramwise.torch.stats()
except vramwise.VramwiseError as error: print(error)
"""
        shown, errors = self.world.run(code, FAKE_TORCH_VERSION="2.4.1",
                                       PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64")
        self.assertEqual(shown.splitlines(), [
            "vramwise:tight via plain door", "vramwise:tight max_split_size_mb:64",
            "set_base_alloc_fn set_memory_fraction_fn set_record_stream_fn set_reset_fn",
            "no statistics: vramwise:tight via plain door serves this process"])
        self.assertIn("serves through the plain door, without statistics", errors)

    def test_where_the_plain_door_cannot_be_taken_pytorchs_own_stays(self):
        plain = INSTALL.format("fallback='plain'")
        shown, _ = self.world.run(plain, FAKE_TORCH_VERSION="2.0.1")
        self.assertIn("the plain door needs PyTorch 2.3", shown)
        shown, _ = self.world.run(plain, FAKE_TORCH_VERSION="2.4.1",
                                  PYTORCH_CUDA_ALLOC_CONF="nonsense")
        self.assertIn("the plain door refuses 'vramwise' with PYTORCH_CUDA_ALLOC_CONF=nonsense",
                      shown)

    def test_what_the_adapter_refuses_is_said(self):
        self.assertEqual(self.error_of("install()", FAKE_ADAPTER_REFUSES="1"),
                         "the adapter refused: no such luck")

    def test_stats_without_an_allocator_of_ours_are_an_error(self):
        shown, _ = self.world.run("""
            import vramwise.torch
            try: vramwise.torch.stats()
            except vramwise.VramwiseError as error: print(error)
            vramwise.torch.install(); print(vramwise.torch.stats(7))
            """)
        self.assertEqual(shown, "no statistics: pytorch serves this process\n{}")

    def test_importing_costs_neither_torch_nor_a_library(self):
        shown, _ = self.world.run("""
            import sys, vramwise, vramwise.torch
            print("torch" in sys.modules, any("libvramwise" in line for line in
                                              open("/proc/self/maps")))
            """)
        self.assertEqual(shown, "False False")


if __name__ == "__main__":
    unittest.main()
