"""vramwise.torch.Follower, and the callbacks of frameworks, with stand-ins for torch, transformers,
Lightning and PyTorch's debug server. tests/gpu/torch/frameworks.py has the real ones."""
import contextlib
import glob
import importlib
import io
import os
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
from world import BUILD, ROOT  # noqa: E402

os.environ["VRAMWISE_LIBRARY_DIR"] = str(BUILD)
sys.path.insert(0, str(ROOT / "python"))
import vramwise  # noqa: E402
import vramwise.torch  # noqa: E402
from vramwise import _jobs  # noqa: E402
from vramwise.torch import _follow  # noqa: E402

GIB, MIB = 1 << 30, 1 << 20
NAMES = ["vram_peak_gib", "vram_idle_gib", "vram_growth_mib_per_step"]


class OutOfMemoryError(RuntimeError):
    """PyTorch's."""


class Torch(types.ModuleType):
    """A torch with one GPU of 24 GiB, and what the follower asks of it."""

    def __init__(self):
        super().__init__("torch")
        self.live, self.reserved, self.peak = 2 * GIB, 3 * GIB, 0
        self.observers, self.history = [], []
        self.OutOfMemoryError = OutOfMemoryError
        memory = types.SimpleNamespace(
            _record_memory_history=lambda enabled="all", **_: self.history.append(enabled),
            _record_memory_history_impl=lambda enabled=None, **_: self.history.append(enabled),
            _snapshot=lambda: {"segments": [], "device_traces": [[{
                "action": "oom", "addr": 0, "device_free": 0, "size": 512, "stream": 0, "frames": []}]]})
        self.cuda = types.SimpleNamespace(
            memory=memory, OutOfMemoryError=OutOfMemoryError, init=lambda: None,
            is_initialized=lambda: True, current_device=lambda: 0,
            memory_allocated=lambda device: self.live, memory_reserved=lambda device: self.reserved,
            max_memory_allocated=lambda device: self.peak, mem_get_info=lambda device: (9 * GIB, 24 * GIB),
            get_device_properties=lambda device: types.SimpleNamespace(total_memory=24 * GIB))
        self._C = types.SimpleNamespace(
            _cuda_attach_out_of_memory_observer=self.observers.append,
            _cuda_memoryStats=lambda device: {"allocated_bytes": {"all": {"current": self.live}},
                                              "reserved_bytes": {"all": {"current": self.reserved}}})


class Frameworks(unittest.TestCase):
    """One process in which torch and the frameworks are stand-ins."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.torch = Torch()
        self.folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(mock.patch.dict(sys.modules, {"torch": self.torch}))
        stack.enter_context(mock.patch.object(_follow, "check_gpu"))
        stack.enter_context(mock.patch.object(_follow, "_is_observing", False))
        stack.enter_context(mock.patch.object(_follow, "_following", None))
        self.stack = stack

    def module(self, name, **parts):
        """A stand-in for a module, with what it is imported for."""
        made = types.ModuleType(name)
        vars(made).update(parts)
        self.stack.enter_context(mock.patch.dict(sys.modules, {name: made}))
        return made

    def fresh(self, name):
        """A module of ours, imported on top of the stand-ins."""
        sys.modules.pop(name, None)
        self.addCleanup(sys.modules.pop, name, None)
        return importlib.import_module(name)

    def test_values_are_peak_idle_and_trend(self):
        follower = vramwise.torch.Follower()
        self.assertEqual(follower.values(), {})
        follower.begin()
        self.torch.peak = 5 * GIB
        for _ in range(100):
            follower.step()
        self.assertEqual(follower.values(), dict(zip(NAMES, (5.0, 1.0, 0.0))))
        follower.begin()
        for _ in range(200):
            self.torch.live += 8 * MIB
            self.torch.reserved = self.torch.live + GIB
            follower.step()
        self.assertAlmostEqual(follower.values()["vram_growth_mib_per_step"], 8.0, places=3)
        follower.end()

    def test_the_outlook_is_the_librarys(self):
        log = [(step, step * MIB, GIB) for step in range(1, 200)]
        found = _jobs.outlook_of(log, live_bytes=199 * MIB, reserved_bytes=GIB, device_free_bytes=GIB,
                                 device_total_bytes=24 * GIB)
        self.assertTrue(found.is_leak)
        self.assertEqual((found.bytes_per_step, found.last_step), (MIB, 199))
        self.assertGreater(found.full_at_step, 199)
        self.assertFalse(_jobs.outlook_of([]).is_leak)

    def test_loggers_get_the_values_by_their_own_calls(self):
        follower = vramwise.torch.Follower(report=False)
        follower.begin()
        writer, run = mock.Mock(spec=["add_scalar"]), mock.Mock(spec=["log"])
        follower.log_to(writer, 7)
        self.assertEqual([call.args[0::2] for call in writer.add_scalar.call_args_list],
                         [(name, 7) for name in NAMES])
        values = follower.log_to(run, 7)
        run.log.assert_called_once_with(values, step=7)
        follower.log_to(run)
        run.log.assert_called_with(values)
        self.assertEqual((self.torch.observers, self.torch.history), ([], []))

    def test_the_first_failure_leaves_a_snapshot_and_a_report(self):
        follower = vramwise.torch.Follower(folder=self.folder)
        follower.begin()
        self.assertEqual(self.torch.history, ["all"])
        (observe,) = self.torch.observers
        with contextlib.redirect_stderr(io.StringIO()) as said:
            observe(0, 512, 24 * GIB, 0)
            observe(0, 512, 24 * GIB, 0)
        self.assertEqual(glob.glob(f"{self.folder}/*"), [follower.snapshot])
        self.assertEqual(vramwise.load(follower.snapshot).events, 1)
        self.assertEqual(said.getvalue().count("vramwise: out of GPU memory; 'vramwise doctor "), 1)
        self.assertIn("Verdict: ", said.getvalue())
        with contextlib.redirect_stderr(io.StringIO()) as said:
            found = follower.explain(OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
        self.assertEqual((found.verdict, said.getvalue()), ("unknown", ""))
        follower.end()
        self.assertIsNone(self.torch.history[-1])
        with contextlib.redirect_stderr(io.StringIO()) as said:
            observe(0, 512, 24 * GIB, 0)
        self.assertEqual(said.getvalue(), "")
        follower.begin()
        self.assertEqual(len(self.torch.observers), 1)  # they cannot be taken back
        follower.end()

    def test_what_listens_to_the_history_does_not_pile_up(self):
        original = self.torch.cuda.memory._record_memory_history
        follower = vramwise.torch.Follower()
        for _ in range(3):  # as trainings of one process
            follower.begin()
            self.assertIsNot(self.torch.cuda.memory._record_memory_history, original)
            follower.end()
            self.assertIs(self.torch.cuda.memory._record_memory_history, original)

    def test_an_allocator_without_a_history_is_left_as_it_was(self):
        memory = self.torch.cuda.memory
        original, memory._record_memory_history_impl = memory._record_memory_history, mock.Mock(
            side_effect=RuntimeError("no history here"))
        with contextlib.redirect_stderr(io.StringIO()) as said:
            vramwise.torch.Follower().begin()
        self.assertIn("no report if memory runs out: no history here", said.getvalue())
        self.assertIs(memory._record_memory_history, original)

    def test_a_doctor_that_fails_hides_nothing(self):
        follower = vramwise.torch.Follower()
        follower.begin()
        with contextlib.redirect_stderr(io.StringIO()) as said, \
                mock.patch("vramwise._diagnosis.doctor", side_effect=vramwise.VramwiseError("no library")):
            self.assertIsNone(follower.explain(OutOfMemoryError("CUDA out of memory")))
        self.assertIn("no report: VramwiseError: no library", said.getvalue())
        follower.end()

    def test_a_failing_report_hides_nothing(self):
        follower = vramwise.torch.Follower(folder="/no/such/folder")
        follower.begin()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.torch.observers[0](0, 512, 24 * GIB, 0)
        self.assertIn("out of GPU memory, and no report: FileNotFoundError", said.getvalue())
        follower.end()

    def test_under_run_and_without_a_gpu_it_leaves_things_alone(self):
        self.module("_vramwise_watch", is_watching=lambda: True)
        follower = vramwise.torch.Follower()
        follower.begin()
        self.assertEqual((self.torch.observers, self.torch.history), ([], []))
        self.assertIn("vram_peak_gib", follower.values())
        other = vramwise.torch.Follower()
        with mock.patch.object(_follow, "check_gpu", side_effect=_follow.Stays("there is no GPU here")):
            other.begin()
        other.step()
        other.end()
        self.assertEqual(other.values(), {})
        self.assertIsNone(other.explain(OutOfMemoryError("CUDA out of memory")))
        disabled = vramwise.torch.Follower()
        with mock.patch.dict(os.environ, VRAMWISE_DISABLE="1"):
            disabled.begin()
        self.assertEqual(disabled.values(), {})

    def test_a_history_that_is_on_is_left_alone(self):
        self.torch._C._cuda_isHistoryEnabled = lambda: True
        follower = vramwise.torch.Follower()
        follower.begin()
        follower.end()
        self.assertEqual(self.torch.history, [])

    def test_transformers_logs_get_the_values(self):
        self.module("transformers", TrainerCallback=type("TrainerCallback", (), {}))
        module = self.fresh("vramwise.transformers")
        args = types.SimpleNamespace(output_dir=self.folder)
        state = types.SimpleNamespace(global_step=2, log_history=[{"loss": 1.0, "step": 2}])
        callback = module.VramwiseCallback(report=False)
        wandb = self.module("wandb", run=mock.Mock(spec=["log"]))
        logs = {"loss": 1.0}
        callback.on_log(args, state, None, logs=logs)
        self.assertEqual(logs, {"loss": 1.0})  # not before the training begins
        callback.on_train_begin(args, state, None)
        callback.on_step_end(args, state, None)
        callback.on_log(args, state, None, logs=logs)
        self.assertEqual(sorted(logs), sorted(["loss", *NAMES]))
        self.assertEqual(state.log_history, [{**logs, "step": 2}])
        wandb.run.log.assert_called_once_with({name: logs[name] for name in NAMES}, commit=False)
        callback.on_train_end(args, state, None)
        trainer = types.SimpleNamespace(callback_handler=types.SimpleNamespace(callbacks=["reporter"]))
        first = module.VramwiseCallback.add_to(trainer, report=False)
        self.assertEqual(trainer.callback_handler.callbacks, [first, "reporter"])
        first.on_train_begin(args, state, None)
        first.on_log(args, state, None, logs={})
        wandb.run.log.assert_called_once()  # its callback comes later, and has them
        self.assertEqual(first.follower.folder, self.folder)

    def fitting(self, module, **facts):
        """A trainer with the mixin, and what it did: (loss, options of backward)."""
        done = []

        class Trainer:
            args = types.SimpleNamespace(world_size=1, n_gpu=1)
            model_accepts_loss_kwargs, compute_loss_func = True, None
            accelerator = types.SimpleNamespace()

            def training_step(self, model, inputs, num_items_in_batch=None):
                self.accelerator.backward(("loss of", inputs["labels"]), scale=num_items_in_batch)

        class Accelerator:
            def backward(self, loss, **options):
                done.append((loss, options))

        made = type("Fitting", (module.FitBatch, Trainer), {})()
        made.accelerator = Accelerator()
        vars(made).update(facts)
        return made, done

    def test_a_trainers_batch_is_taken_in_parts(self):
        class Fitter:
            def fit_batch(self, step, batch, weight, backward):
                self.weights = [weight(batch)]
                for part in ({"labels": Labels(3)}, {"labels": Labels(5)}):
                    self.weights.append(weight(part))
                    backward(step(part))
                return types.SimpleNamespace(loss="whole")

        class Labels(int):
            __ne__ = lambda self, other: types.SimpleNamespace(sum=lambda: int(self))  # noqa: E731
            __hash__ = int.__hash__

        self.module("transformers", TrainerCallback=object)
        module = self.fresh("vramwise.transformers")
        self.stack.enter_context(mock.patch.object(module, "Fitter", Fitter))
        made, done = self.fitting(module)
        self.assertEqual(made.training_step("model", {"labels": Labels(8)}, 64), "whole")
        self.assertEqual([(loss[0], int(loss[1]), options) for loss, options in done],
                         [("loss of", 3, {"scale": 64}), ("loss of", 5, {"scale": 64})])
        self.assertEqual(made._fitter.weights, [1.0, 1.0, 1.0])  # divided by the whole batch already
        self.assertNotIn("backward", vars(made.accelerator))
        made.training_step("model", {"labels": Labels(8)})
        self.assertEqual(made._fitter.weights, [8.0, 3.0, 5.0])  # a mean over labels
        self.assertEqual(made._weight_of(None)({"x": [1, 2]}), 2.0)
        for facts in ({"args": types.SimpleNamespace(world_size=2, n_gpu=1)},
                      {"args": types.SimpleNamespace(world_size=1, n_gpu=2)},
                      {"is_deepspeed_enabled": True}):
            made, done = self.fitting(module, **facts)
            made.training_step("model", {"labels": Labels(8)}, 64)
            self.assertEqual((len(done), made._fitter), (1, None))

    def test_lightnings_loggers_get_the_values(self):
        self.module("lightning")
        self.module("lightning.pytorch", Callback=type("Callback", (), {}))
        callback = self.fresh("vramwise.lightning").VramwiseCallback()
        logger = mock.Mock(spec=["log_metrics"])
        trainer = types.SimpleNamespace(global_step=0, log_every_n_steps=2, loggers=[logger],
                                        default_root_dir=Path(self.folder))
        callback.on_train_start(trainer, None)
        for step in (1, 1, 2, 3, 4):  # one batch only accumulated
            trainer.global_step = step
            callback.on_train_batch_end(trainer, None, None, None, 0)
        self.assertEqual([call.kwargs["step"] for call in logger.log_metrics.call_args_list], [2, 4])
        self.assertEqual(sorted(logger.log_metrics.call_args.args[0]), sorted(NAMES))
        with contextlib.redirect_stderr(io.StringIO()) as said:
            callback.on_exception(trainer, None, KeyError("mine"))
            callback.on_exception(trainer, None, RuntimeError("CUDA error: out of memory"))
        self.assertEqual(said.getvalue().count("vramwise: out of memory\n"), 1)

    def test_the_debug_server_has_a_page(self):
        asked = []

        def fetch_all(name, timeout):
            asked.append((name, timeout))
            return ["a", "b"], [types.SimpleNamespace(text=text, status_code=200)
                                for text in ("first", "train.py:9 <module><script>")]

        registered = {}
        self.module("torch._C", **vars(self.torch._C))
        self.module("torch._C._distributed_c10d", _register_handler=registered.__setitem__)
        self.module("torch.distributed")
        self.module("torch.distributed.debug")
        self.module("torch.distributed.debug._debug_handlers", default_handlers=lambda: ["stacks"])
        route = lambda path, target: types.SimpleNamespace(path=path, target=target)  # noqa: E731
        self.module("torch.distributed.debug._frontend", fetch_all=fetch_all, Route=route, NavLink=route,
                    DebugHandler=type("DebugHandler", (), {"fetch_timeout": 60.0}))
        module = self.fresh("vramwise.debug_server")
        stacks, handler = module.handlers()
        self.assertEqual((stacks, handler.routes()[0].path, handler.nav_links()[0].path),
                         ("stacks", "/vramwise", "/vramwise"))
        self.assertEqual(handler.dump(), "=== Rank 0 ===\nfirst\n=== Rank 1 ===\ntrain.py:9 <module><script>")
        request = mock.Mock()
        handler.routes()[0].target(request)
        shown = request.frontend.render_template.call_args.kwargs
        self.assertEqual(shown["addrs"], ["a", "b"])
        self.assertEqual([each.text for each in shown["resps"]],
                         ["first", "train.py:9 &lt;module&gt;&lt;script&gt;"])
        self.assertEqual(asked, [("vramwise", 60.0)] * 2)
        response = mock.Mock()
        with mock.patch.object(module, "doctor", return_value=mock.Mock(text="healthy")):
            registered["vramwise"](None, response)
        response.set_content.assert_called_with("healthy", "text/plain")
        with mock.patch.object(module, "doctor", side_effect=vramwise.VramwiseError("no CUDA")):
            registered["vramwise"](None, response)
        response.set_status.assert_called_with(503)


if __name__ == "__main__":
    unittest.main()
