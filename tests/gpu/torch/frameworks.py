"""frameworks.py - Hugging Face's Trainer, Lightning and accelerate with vramwise's callbacks, for real.

What is not installed is said and left out. Without a GPU, what needs one is left out too: batches that are
split and loops that run as before are checked all the same. Exits with 1 if a check fails.
"""
import contextlib
import copy
import glob
import io
import os
import sys
import tempfile
import traceback
from importlib.util import find_spec

import torch

import vramwise.torch

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
NAMES = ("vram_peak_gib", "vram_idle_gib", "vram_growth_mib_per_step")


def tiny_model():
    """A GPT-2 of two layers, the same each time."""
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(1)
    return GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=512, n_positions=64,
                                      resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))


def samples(count):
    """Token sequences, with labels of which some are ignored."""
    generator = torch.Generator().manual_seed(2)
    rows = torch.randint(0, 512, (count, 32), generator=generator)
    labels = rows.clone()
    for row in range(count):
        labels[row, 32 - row % 5:] = -100
    return [{"input_ids": rows[i], "labels": labels[i]} for i in range(count)]


def trainer_of(folder, kind, callbacks=(), batch=8, steps=4, **options):
    """A Trainer of some steps."""
    from transformers import TrainingArguments
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=batch, max_steps=steps, logging_steps=2,
        save_strategy="no", report_to=[], disable_tqdm=True, learning_rate=1e-2, seed=3,
        max_grad_norm=0.0, use_cpu=not HAS_GPU, optim="sgd", **options)
    return kind(model=tiny_model(), args=arguments, train_dataset=samples(batch * steps),
                callbacks=list(callbacks))


class Refusing:
    """Makes a model refuse more samples at once than `most`, as a full GPU would."""

    def __init__(self, model, most):
        self.refusals = 0
        model.register_forward_pre_hook(self.check, with_kwargs=True)
        self.most = most

    def check(self, module, args, kwargs):
        if kwargs["input_ids"].shape[0] > self.most:
            self.refusals += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def check_trainer_logs():
    """The values are in the logs, and what comes after add_to() sees them."""
    from transformers import Trainer, TrainerCallback

    from vramwise.transformers import VramwiseCallback

    class Reporter(TrainerCallback):
        seen = []

        def on_log(self, args, state, control, logs=None, **kwargs):
            self.seen.append(dict(logs))

    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(folder, Trainer, [VramwiseCallback()])
        trainer.train()
        logged = [entry for entry in trainer.state.log_history if "loss" in entry]
        assert len(logged) == 2, trainer.state.log_history
        for entry in logged:
            assert all((name in entry) == HAS_GPU for name in NAMES), entry
        trainer = trainer_of(folder, Trainer, [Reporter()])
        VramwiseCallback.add_to(trainer)
        trainer.train()
        assert all((name in Reporter.seen[0]) == HAS_GPU for name in NAMES), Reporter.seen
        assert not HAS_GPU or Reporter.seen[0]["vram_peak_gib"] > 0
        assert glob.glob(f"{folder}/vramwise-oom*") == []


def check_trainer_fits():
    """A batch taken in parts gives the weights of the whole batch, whichever way the loss is divided."""
    from transformers import Trainer

    from vramwise.transformers import FitBatch

    class Fitting(FitBatch, Trainer):
        pass

    for options in ({}, {"average_tokens_across_devices": False}):
        for accepts in (True, False):
            results = []
            for kind, most in ((Trainer, 99), (Fitting, 3)):
                with tempfile.TemporaryDirectory() as folder:
                    trainer = trainer_of(folder, kind, **options)
                    trainer.model_accepts_loss_kwargs = accepts
                    refusing = Refusing(trainer.model, most)
                    loss = trainer.train().training_loss
                    results.append((loss, [p.detach().cpu() for p in trainer.model.parameters()]))
                    assert (refusing.refusals > 0) == (most == 3), refusing.refusals
            (whole_loss, whole), (parts_loss, parts) = results
            worst = max((a - b).abs().max().item() for a, b in zip(whole, parts))
            assert worst < 1e-5 and abs(whole_loss - parts_loss) < 1e-4, \
                (accepts, worst, whole_loss, parts_loss)


def check_trainer_report():
    """Running out of memory leaves a snapshot in output_dir and the doctor's words on standard error."""
    from transformers import Trainer

    from vramwise.transformers import VramwiseCallback

    class Hungry(Trainer):
        def compute_loss(self, model, inputs, **options):
            if self.state.global_step == 2:
                self.kept = torch.empty(1 << 42, dtype=torch.uint8, device=DEVICE)
            return super().compute_loss(model, inputs, **options)

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as said:
        trainer = trainer_of(folder, Hungry, [VramwiseCallback()])
        try:
            trainer.train()
            raise AssertionError("4 TiB were given")
        except torch.OutOfMemoryError as error:
            assert vramwise.doctor(error).verdict == "too-large", vramwise.doctor(error)
        (path,) = glob.glob(f"{folder}/vramwise-oom-*.pickle")
        assert vramwise.load(path).events > 0
    assert "out of GPU memory; 'vramwise doctor" in said.getvalue(), said.getvalue()
    assert "Verdict: " in said.getvalue(), said.getvalue()


def check_lightning():
    """Loggers get the values; a crash is explained once."""
    if find_spec("lightning") is not None:
        import lightning.pytorch as pl
        from lightning.pytorch.loggers.logger import Logger
    else:
        import pytorch_lightning as pl
        from pytorch_lightning.loggers.logger import Logger

    from vramwise.lightning import VramwiseCallback

    class Kept(Logger):
        name, version = "kept", 0

        def __init__(self):
            super().__init__()
            self.metrics = []

        def log_metrics(self, metrics, step=None):
            self.metrics.append((step, dict(metrics)))

        def log_hyperparams(self, *arguments, **options):
            pass

    class Module(pl.LightningModule):
        def __init__(self, fails=False):
            super().__init__()
            self.layer, self.fails = torch.nn.Linear(64, 1), fails

        def training_step(self, batch, index):
            if self.fails and index == 2:
                torch.empty(1 << 42, dtype=torch.uint8, device=DEVICE)
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    def fit(folder, module, logger):
        trainer = pl.Trainer(max_steps=6, log_every_n_steps=2, logger=logger, default_root_dir=folder,
                             callbacks=[VramwiseCallback()], enable_checkpointing=False,
                             enable_progress_bar=False, enable_model_summary=False,
                             accelerator="gpu" if HAS_GPU else "cpu", devices=1)
        trainer.fit(module, torch.utils.data.DataLoader(torch.randn(24, 64), batch_size=4))

    with tempfile.TemporaryDirectory() as folder:
        logger = Kept()
        fit(folder, Module(), logger)
        steps = [step for step, metrics in logger.metrics if "vram_peak_gib" in metrics]
        assert steps == ([2, 4, 6] if HAS_GPU else []), logger.metrics
        if not HAS_GPU:
            return
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                fit(folder, Module(fails=True), Kept())
                raise AssertionError("4 TiB were given")
            except torch.OutOfMemoryError:
                pass
        assert len(glob.glob(f"{folder}/vramwise-oom-*.pickle")) == 1
        assert said.getvalue().count("Verdict: ") == 1, said.getvalue()


def check_accelerate():
    """A loop of accelerate's: a batch in parts by its backward(), and values for a SummaryWriter."""
    from accelerate import Accelerator

    class Writer:
        def __init__(self):
            self.scalars = []

        def add_scalar(self, name, value, step):
            self.scalars.append((name, value, step))

    accelerator, writer = Accelerator(cpu=not HAS_GPU), Writer()
    first = tiny_model()
    second = copy.deepcopy(first)
    refusing = Refusing(second, 2)
    batch = {name: torch.stack([each[name] for each in samples(8)]) for name in ("input_ids", "labels")}
    batch["labels"] = batch["input_ids"].clone()
    follower = vramwise.torch.Follower(report=False)
    follower.begin()
    models = []
    for model in (first, second):
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
        given = {name: tensor.to(accelerator.device) for name, tensor in batch.items()}
        vramwise.torch.fit_batch(lambda part: model(**part).loss, given, backward=accelerator.backward)
        optimizer.step()
        follower.step()
        models.append([p.detach().cpu() for p in model.parameters()])
    worst = max((a - b).abs().max().item() for a, b in zip(*models))
    assert worst < 1e-5 and refusing.refusals > 0, (worst, refusing.refusals)
    follower.log_to(writer, 2)
    follower.end()
    assert [name for name, _, _ in writer.scalars] == (list(NAMES) if HAS_GPU else []), writer.scalars


def check_debug_server():
    """A rank answers with the doctor's report, and the page is among PyTorch's."""
    from vramwise import debug_server

    class Response:
        def set_content(self, content, kind):
            self.content = content

        def set_status(self, status):
            self.status = status

    if HAS_GPU:
        torch.cuda.init()
    response = Response()
    debug_server._answer(None, response)
    assert response.status == (200 if HAS_GPU else 503), response.content
    made = debug_server.handlers()[-1] if has("tabulate") else debug_server.MemoryHandler()
    assert [route.path for route in made.routes()] == ["/vramwise"]
    assert made.dump_filename() == "vramwise"


CHECKS = [(check_trainer_logs, ("transformers", "accelerate"), False),
          (check_trainer_fits, ("transformers", "accelerate"), False),
          (check_trainer_report, ("transformers", "accelerate"), True),
          (check_lightning, ("lightning|pytorch_lightning",), False),
          (check_accelerate, ("accelerate", "transformers"), False),
          (check_debug_server, ("torch.distributed.debug._debug_handlers",), False)]


def has(name):
    """Whether one of the modules is installed."""
    for each in name.split("|"):
        with contextlib.suppress(ImportError):
            if find_spec(each) is not None:
                return True
    return False


def main():
    """All checks."""
    failed = 0
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for check, needs, needs_gpu in CHECKS:
        missing = [name for name in needs if not has(name)] + (["a GPU"] if needs_gpu and not HAS_GPU else [])
        if missing:
            print(f"skip {check.__name__}: there is no {', '.join(missing)}", flush=True)
            continue
        try:
            check()
            print("ok  ", check.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAIL", check.__name__, flush=True)
            traceback.print_exc()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
