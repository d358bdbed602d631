"""vramwise.plan(): the planner's JSON as data, with the settings that were asked for."""
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from world import BUILD, ROOT  # noqa: E402

os.environ["VRAMWISE_LIBRARY_DIR"] = str(BUILD)
sys.path.insert(0, str(ROOT / "python"))
import vramwise  # noqa: E402
from vramwise import _plan  # noqa: E402

PHASES = ROOT / "tests/data/recordings/train_eval_phases.native.pickle.xz"
CONFIG = {"model_type": "gpt2", "vocab_size": 1000, "n_positions": 256, "n_embd": 64, "n_layer": 2,
          "n_head": 4}


def settings_of(**given):
    """The settings that a plan of gpt2 comes back with."""
    return vramwise.plan("gpt2", seq=64, choices=False, **given)["settings"]


class Plan(unittest.TestCase):
    """vramwise.plan()"""

    def test_a_built_in_model_becomes_data(self):
        made = vramwise.plan("gpt2", batch=8, seq=512, card="24GiB")
        self.assertEqual((made["schema"], made["family"], made["parameters"]),
                         (1, "gpt2", 124439808))
        self.assertTrue(made["fits"])
        self.assertEqual(sum(made["parts"].values()) - made["parts"]["context"],
                         made["peak_allocated_bytes"])
        self.assertEqual(made["settings"]["card_bytes"], 24 << 30)
        self.assertFalse(vramwise.plan("gpt2", batch=8, seq=512, card=4 << 30)["fits"])

    def test_every_word_means_what_the_library_means_by_it(self):
        for word in _plan._PRECISIONS:
            self.assertEqual(settings_of(precision=word)["precision"],
                             "fp32" if word == "auto" else word)
        for word in _plan._KV_DTYPES:
            made = settings_of(generate=4, kv_dtype=word, static_cache=word == "fp8")
            self.assertEqual((made["kv_dtype"], made["static_cache"]), (word, word == "fp8"))
        for model, words in (("gpt2", ("causal-lm", "sequence-classification", "none")),
                             ("bert-base", ("masked-lm", "token-classification",
                                            "question-answering")),
                             ("t5-small", ("seq2seq-lm", "encoder")),
                             ("vit-base", ("image-classification",))):
            for word in words:
                made = vramwise.plan(model, head=word, choices=False)
                self.assertEqual(made["settings"]["head"], word)
        for word in _plan._ATTENTIONS:
            self.assertEqual(settings_of(attention=word, precision="bf16")["attention"], word)
        for word in _plan._MODES:
            chosen = {} if word == "train" else {word.replace("-", "_"): True}
            self.assertEqual(settings_of(**chosen)["mode"], word)
        for word in _plan._OPTIMIZERS:
            self.assertEqual(settings_of(optimizer=word)["optimizer"], word)
        for word in _plan._OFFLOADS:
            self.assertEqual(settings_of(offload=word)["offload"], word)
        for chosen, word in (({}, "none"), ({"zero": 1}, "zero1"), ({"zero": 2}, "zero2"),
                             ({"zero": 3}, "zero3"), ({"fsdp": True}, "fsdp")):
            self.assertEqual(settings_of(gpus=4, **chosen)["sharding"], word)
        for given, word, every in ((False, "none", None), (True, "full", None), (3, "every", 3),
                                   ("selective", "selective", None)):
            made = settings_of(checkpointing=given)
            self.assertEqual((made["checkpointing"], made["checkpoint_every"]), (word, every))

    def test_numbers_arrive_in_their_own_fields(self):
        made = settings_of(batch=3, accumulation=5, loss_chunks=7, lora=9, gpus=2,
                           master_weights=True, precision="bf16", card="h200")
        self.assertEqual([made[name] for name in (
            "batch", "sequence", "accumulation", "loss_chunks", "lora_rank", "quantized", "gpus",
            "master_weights", "card")], [3, 64, 5, 7, 9, False, 2, True, "h200"])
        self.assertTrue(settings_of(qlora=4)["quantized"])
        self.assertTrue(settings_of(inference=True)["loss"])
        self.assertFalse(settings_of(inference=True, without_loss=True)["loss"])
        image = vramwise.plan("vit-base", image=448, choices=False)["settings"]
        self.assertEqual((image["image"], image["sequence"]), (448, None))

    def test_a_file_and_a_folder_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "config.json")
            path.write_text(json.dumps(CONFIG))
            by_file, by_folder = vramwise.plan(path, batch=2), vramwise.plan(folder, batch=2)
            self.assertEqual(by_file["peak_allocated_bytes"], by_folder["peak_allocated_bytes"])
            self.assertEqual(by_file["settings"]["sequence"], 256)
            path.write_text(json.dumps(dict(CONFIG, n_layer=0)))
            with self.assertRaisesRegex(vramwise.VramwiseError, "n_layer: expected") as caught:
                vramwise.plan(path)
            self.assertEqual(caught.exception.status, "VW_ERR_UNSUPPORTED")

    def test_what_has_no_sense_is_refused(self):
        with self.assertRaisesRegex(vramwise.VramwiseError, "did you mean 'gpt2'"):
            vramwise.plan("gpt3")
        with self.assertRaisesRegex(vramwise.VramwiseError, "at least 2"):
            vramwise.plan("gpt2", zero=3)
        for wrong in ({"precision": "fp8"}, {"batch": 0}, {"batch": True}, {"batch": 2**70},
                      {"checkpointing": "every"}, {"card": "rtx"}, {"card": "24"}, {"card": 24},
                      {"lora": 8, "qlora": 8}, {"zero": 4}, {"zero": 1, "fsdp": True}, {"inference": True, "keep_graph": True}):
            with self.assertRaises(ValueError):
                vramwise.plan("gpt2", **wrong)
        for zero in (True, 1.0):
            with self.assertRaisesRegex(ValueError, "zero is one of 1, 2, 3, not "):
                vramwise.plan("gpt2", zero=zero, gpus=2)

    def test_a_recording_is_planned_at_another_batch(self):
        made = vramwise.plan(from_recording=PHASES, batch_now=8, batch=16, card="rtx4090")
        self.assertEqual((made["schema"], made["file"], made["batch_now"], made["batch"]),
                         (1, str(PHASES), 8, 16))
        self.assertTrue(made["fits"])
        same = vramwise.plan(from_recording=PHASES, batch_now=8)
        self.assertEqual(same["peak_allocated_bytes"], same["now_peak_bytes"])
        self.assertGreater(made["peak_allocated_bytes"], same["peak_allocated_bytes"])
        for policy in ("native", "expandable", "vramwise"):
            self.assertGreaterEqual(made["reserved_bytes"][policy], made["peak_allocated_bytes"])
        longer = vramwise.plan(from_recording=PHASES, batch_now=8, seq_now=64, seq=128,
                               step=made["step"], card="24GiB")
        self.assertEqual((longer["sequence_now"], longer["sequence"], longer["step"]),
                         (64, 128, made["step"]))

    def test_a_recording_that_was_loaded_is_planned_alike(self):
        by_path = vramwise.plan(from_recording=str(PHASES), batch_now=4, batch=2)
        with vramwise.load(PHASES) as recording:
            self.assertEqual(recording.plan(4, batch=2), by_path)
            self.assertEqual(vramwise.plan(from_recording=recording, batch_now=4, batch=2), by_path)
        in_memory = vramwise.plan(from_recording=PHASES.read_bytes(), batch_now=4, batch=2)
        self.assertEqual(dict(in_memory, file=None), dict(by_path, file=None))

    def test_methods_of_training(self):
        made = vramwise.plan("gpt2", seq=60, lora=8, lora_targets=["c_attn", "c_fc"],
                             fused_loss=True, padding=16, optimizer="lion", choices=False)
        self.assertEqual(made["lora_modules"], "c_attn, c_fc")
        given = made["settings"]
        self.assertEqual((given["sequence"], given["padding"], given["fused_loss"],
                          given["optimizer"], given["lora_targets"]),
                         (64, 16, True, "lion", "c_attn,c_fc"))
        self.assertEqual(vramwise.plan("gpt2", padding=True, choices=False)["settings"]["padding"], 1)
        for wrong in ({"lora": 8, "lora_targets": []}, {"padding": 0}, {"optimizer": "adam"}):
            with self.assertRaises(ValueError):
                vramwise.plan("gpt2", **wrong)
        with self.assertRaisesRegex(vramwise.VramwiseError, "found q_proj"):
            vramwise.plan("gpt2", lora=8, lora_targets="q_proj")

    def test_what_has_no_sense_of_a_recording_is_refused(self):
        for wrong, words in (({}, "needs batch_now"), ({"batch_now": 0}, "from 1 on"),
                             ({"batch_now": 1, "seq": 64}, "needs seq_now"),
                             ({"batch_now": 1, "step": -1}, "from 0 on"),
                             ({"batch_now": 1, "step": True}, "from 0 on"),
                             ({"batch_now": 1, "lora": 8}, "lora is for models"),
                             ({"batch_now": 1, "model": "gpt2"}, "model is for models"),
                             ({"batch_now": 1, "card": "rtx"}, "expected a size such as 24GiB or a card")):
            with self.assertRaisesRegex(ValueError, words):
                vramwise.plan(from_recording=PHASES, **wrong)
        for wrong in ({"batch_now": 1}, {"seq_now": 1}, {"step": 0}):
            with self.assertRaisesRegex(ValueError, "needs from_recording"):
                vramwise.plan("gpt2", **wrong)
        with self.assertRaisesRegex(ValueError, "expected a model"):
            vramwise.plan()
        with self.assertRaisesRegex(vramwise.VramwiseError, "step"):
            vramwise.plan(from_recording=PHASES, batch_now=1, step=10**6)

    def test_earlier_names_still_work_and_say_so(self):
        with self.assertWarnsRegex(DeprecationWarning, r"plan\(sequence=...\) .* seq=64"):
            made = vramwise.plan("gpt2", sequence=64, choices=False)
        self.assertEqual(made.settings.sequence, 64)
        for earlier, field, word in (({"mode": "keep-graph"}, "mode", "keep-graph"),
                                     ({"mode": "train"}, "mode", "train"),
                                     ({"sharding": "zero2", "gpus": 4}, "sharding", "zero2"),
                                     ({"sharding": "fsdp", "gpus": 4}, "sharding", "fsdp"),
                                     ({"sharding": "none"}, "sharding", "none")):
            with self.assertWarns(DeprecationWarning):
                self.assertEqual(settings_of(**earlier)[field], word)
        for wrong in ({"mode": "eval"}, {"sharding": "zero"}):
            with self.assertRaisesRegex(ValueError, "is one of"):
                settings_of(**wrong)
        with self.assertRaisesRegex(TypeError, "sequence is an earlier name of seq"):
            vramwise.plan("gpt2", sequence=64, seq=64)
        with self.assertRaises(TypeError):
            vramwise.plan("gpt2", length=64)

    def test_the_built_in_models_are_listed(self):
        models = {model["name"]: model["parameters"] for model in vramwise.plan_models()}
        self.assertEqual(models["llama-3-8b"], 8030261248)


if __name__ == "__main__":
    unittest.main()
