"""measure_plan.py - what training really takes on a GPU, for the planner to be held against.

    python3 measure_plan.py [PART OF] [--only WORDS] [--snapshots DIR]

The cases are those that the first table (tests/data/plan/truth.jsonl) lacks: other families, an
optimizer in host memory, FSDP2 on one GPU, a key/value cache. PART of OF lets several processes share
the work. Three steps a case; the figures are of the last, one line of JSON a case. With --snapshots,
the memory after the last forward pass is written down too: what a plan missed is found there.
"""
import argparse
import gc
import json
import os
import pickle
import time

import torch
import torch.nn.functional as F

from offloaded_adamw import OffloadedAdamW

DEVICE = "cuda"
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "amp-bf16": torch.bfloat16,
          "amp-fp16": torch.float16}
IMAGES = ("resnet", "vit", "wide", "resnext")

# Real shapes, fewer layers where the whole would only take longer.
KINDS = {
    "gpt2": ("GPT2", {}),
    "gpt2-large": ("GPT2", dict(n_layer=36, n_embd=1280, n_head=20)),
    "llama-160m": ("Llama", dict(num_hidden_layers=12, hidden_size=768, num_attention_heads=12,
                                 num_key_value_heads=12, intermediate_size=3072, vocab_size=32000,
                                 max_position_embeddings=2048)),
    "llama-1b": ("Llama", dict(num_hidden_layers=16, hidden_size=2048, num_attention_heads=32,
                               num_key_value_heads=8, intermediate_size=8192, vocab_size=128256,
                               max_position_embeddings=4096, tie_word_embeddings=True)),
    "mistral-8l": ("Mistral", dict(num_hidden_layers=8, hidden_size=1024, num_attention_heads=16,
                                   num_key_value_heads=4, intermediate_size=3584,
                                   vocab_size=32000)),
    "qwen3-8l": ("Qwen3", dict(num_hidden_layers=8, hidden_size=1024, num_attention_heads=16,
                               num_key_value_heads=8, head_dim=128, intermediate_size=3072,
                               vocab_size=151936, tie_word_embeddings=True)),
    "gemma-6l": ("Gemma", dict(num_hidden_layers=6, hidden_size=1024, num_attention_heads=8,
                               num_key_value_heads=1, head_dim=256, intermediate_size=8192,
                               vocab_size=64000)),
    "gemma2-6l": ("Gemma2", dict(num_hidden_layers=6, hidden_size=1024, num_attention_heads=8,
                                 num_key_value_heads=4, head_dim=256, intermediate_size=4096,
                                 vocab_size=64000)),
    "gemma3-6l": ("Gemma3Text", dict(num_hidden_layers=6, hidden_size=1152, num_attention_heads=4,
                                     num_key_value_heads=1, head_dim=256, intermediate_size=6912,
                                     vocab_size=64000)),
    "phi-8l": ("Phi", dict(num_hidden_layers=8, hidden_size=1024, num_attention_heads=16,
                           intermediate_size=4096, vocab_size=51200)),
    "phi3-8l": ("Phi3", dict(num_hidden_layers=8, hidden_size=1024, num_attention_heads=16,
                             num_key_value_heads=16, intermediate_size=2816, vocab_size=32064,
                             pad_token_id=0)),
    "mixtral-4l": ("Mixtral", dict(num_hidden_layers=4, hidden_size=1024, num_attention_heads=16,
                                   num_key_value_heads=4, intermediate_size=3584,
                                   vocab_size=32000, num_local_experts=8)),
    "bert-large": ("Bert", dict(num_hidden_layers=24, hidden_size=1024, num_attention_heads=16,
                                intermediate_size=4096)),
    "roberta-base": ("Roberta", dict(vocab_size=50265, max_position_embeddings=514,
                                     type_vocab_size=1)),
    "t5-base": ("T5", dict(d_model=768, d_ff=3072, num_layers=12, num_heads=12, d_kv=64,
                           vocab_size=32128, decoder_start_token_id=0)),
    "vit-large": ("ViT", dict(num_hidden_layers=24, hidden_size=1024, num_attention_heads=16,
                              intermediate_size=4096, num_labels=1000)),
}
HEADS = {"Bert": "BertForMaskedLM", "Roberta": "RobertaForMaskedLM", "ViT": "ViTForImageClassification",
         "T5": "T5ForConditionalGeneration", "GPT2": "GPT2LMHeadModel",
         "Gemma3Text": "Gemma3ForCausalLM"}
NO_ATTENTION_CHOICE = ("T5",)


def build(kind: str, dtype, attention: str):
    torch.set_default_dtype(dtype)
    try:
        if kind not in KINDS:
            import torchvision
            return getattr(torchvision.models, kind)().to(DEVICE), None
        import transformers
        family, fields = KINDS[kind]
        fields = dict(fields)
        if family not in NO_ATTENTION_CHOICE:
            fields["attn_implementation"] = attention
        if family not in ("ViT",):
            fields["use_cache"] = False
        config = getattr(transformers, family + "Config")(**fields)
        name = HEADS.get(family, family + "ForCausalLM")
        return getattr(transformers, name)(config).to(DEVICE), config
    finally:
        torch.set_default_dtype(torch.float32)


def shard(model, has_master: bool, is_offloaded: bool) -> None:
    """FSDP2 over a group of one: each block by itself, then the rest."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    options = {}
    if has_master:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                                    reduce_dtype=torch.float32)
    if is_offloaded:
        options["offload_policy"] = CPUOffloadPolicy()
    blocks = max((m for m in model.modules() if isinstance(m, torch.nn.ModuleList)), key=len)
    for block in blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)


def optimizer_of(name: str, parameters, offload: str):
    if offload == "optimizer":
        return OffloadedAdamW(parameters)
    return {"adamw": lambda: torch.optim.AdamW(parameters, lr=1e-5),
            "adamw-fused": lambda: torch.optim.AdamW(parameters, lr=1e-5, fused=True),
            "adamw-loop": lambda: torch.optim.AdamW(parameters, lr=1e-5, foreach=False),
            "sgd": lambda: torch.optim.SGD(parameters, lr=1e-4),
            "sgd-m": lambda: torch.optim.SGD(parameters, lr=1e-4, momentum=0.9),
            "adafactor": lambda: torch.optim.Adafactor(parameters, lr=1e-4)}[name]()


def measure(kind: str, B: int, T: int, prec="fp32", opt="adamw", ckpt=False, attn="sdpa", mode="train",
            accum=1, offload="none", sharding="none", master=False, generate=0,
            snapshot="") -> dict:
    torch.cuda.reset_peak_memory_stats()
    has_16_bits = prec in ("bf16", "fp16") and not (master and sharding == "fsdp")
    model, config = build(kind, DTYPES[prec] if has_16_bits else torch.float32, attn)
    model.train(mode == "train")
    if ckpt:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    result = dict(kind=kind, B=B, T=T, prec=prec, opt=opt, ckpt=ckpt, attn=attn, mode=mode,
                  accum=accum, params=sum(p.numel() for p in model.parameters()),
                  config=config.to_dict() if config else None)
    result.update({name: value for name, value in dict(
        offload=offload, sharding=sharding, master=master, generate=generate).items()
        if value not in ("none", False, 0)})
    if sharding == "fsdp" or offload == "weights":
        shard(model, master, offload == "weights")
        gc.collect()
    result["weights"] = torch.cuda.memory_allocated()
    optimizer = optimizer_of(opt, list(model.parameters()), offload) if mode == "train" else None
    has_images = kind.startswith(IMAGES)

    def forward():
        with torch.autocast("cuda", dtype=DTYPES.get(prec), enabled=prec.startswith("amp")):
            if has_images:
                image = torch.randn(B, 3, T, T, device=DEVICE,
                                    dtype=DTYPES[prec] if has_16_bits else torch.float32)
                label = torch.randint(0, 1000, (B,), device=DEVICE)
                out = model(image) if config is None else model(pixel_values=image).logits
                return F.cross_entropy(out, label)
            ids = torch.randint(1, 30000, (B, T), device=DEVICE)
            return model(input_ids=ids, labels=ids).loss

    is_last = False

    def one_step() -> None:
        if mode == "train":
            optimizer.zero_grad(set_to_none=True)
            for _ in range(accum):
                loss = forward()
                result["after_forward"] = torch.cuda.memory_allocated()
                result["peak_forward"] = torch.cuda.max_memory_allocated()
                if snapshot and is_last:
                    with open(snapshot, "wb") as file:
                        pickle.dump(torch.cuda.memory._snapshot(), file)
                loss.backward()
            result["after_backward"] = torch.cuda.memory_allocated()
            result["peak_backward"] = torch.cuda.max_memory_allocated()
            del loss
            optimizer.step()
            result["after_step"] = torch.cuda.memory_allocated()
        elif generate:
            with torch.inference_mode():
                ids = torch.randint(1, 30000, (B, T), device=DEVICE)
                model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=generate,
                               min_new_tokens=generate, do_sample=False, use_cache=True,
                               pad_token_id=0)
        elif mode == "infer":
            with torch.inference_mode():
                forward().item()
        else:
            loss = forward()
            result["after_forward"] = torch.cuda.memory_allocated()
            del loss

    for number in range(3):
        is_last = number == 2
        if is_last and snapshot:
            torch.cuda.memory._record_memory_history(max_entries=200_000, stacks="python")
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        one_step()
        torch.cuda.synchronize()
        result["ms"] = round((time.perf_counter() - begin) * 1e3, 2)
    if snapshot:
        torch.cuda.memory._record_memory_history(enabled=None)
    result["peak"] = torch.cuda.max_memory_allocated()
    result["reserved"] = torch.cuda.memory_reserved()
    return result


def case(*names, **settings) -> tuple:
    return names, settings


CASES = [
    case("gpt2", 8, 1024, "fp32", "adafactor"),
    case("llama-160m", 8, 2048, "bf16", "adafactor"),
    case("roberta-base", 16, 256, "amp-bf16", "adafactor"),
    case("gpt2", 8, 1024, offload="optimizer"),
    case("llama-160m", 4, 2048, "amp-bf16", offload="optimizer"),
    case("llama-160m", 4, 2048, "bf16", master=True, offload="optimizer"),
    case("gpt2", 8, 1024, sharding="fsdp"),
    case("llama-160m", 8, 1024, sharding="fsdp"),
    case("llama-160m", 4, 2048, "bf16", master=True, sharding="fsdp"),
    case("llama-1b", 2, 1024, "bf16", master=True, sharding="fsdp"),
    case("gpt2", 8, 1024, "fp32", "adamw-fused", ckpt=True, sharding="fsdp"),
    case("gpt2", 8, 1024, offload="weights"),
    case("roberta-base", 16, 256),
    case("bert-large", 8, 512, "amp-bf16", "adamw-fused"),
    case("mistral-8l", 4, 1024, "bf16"),
    case("mistral-8l", 4, 1024, "amp-fp16", ckpt=True),
    case("qwen3-8l", 4, 1024, "amp-bf16"),
    case("qwen3-8l", 2, 2048, "bf16", "adamw-fused"),
    case("gemma-6l", 4, 1024),
    case("gemma-6l", 4, 1024, "bf16", "sgd-m"),
    case("gemma2-6l", 2, 1024, "amp-bf16", attn="eager"),
    case("gemma3-6l", 2, 1024, "bf16"),
    case("phi-8l", 4, 1024),
    case("phi-8l", 4, 1024, "amp-bf16"),
    case("phi3-8l", 4, 1024, "bf16"),
    case("mixtral-4l", 4, 512, "bf16", "adamw-fused"),
    case("mixtral-4l", 2, 512, "amp-bf16", "sgd"),
    case("t5-base", 8, 512, "amp-bf16"),
    case("t5-base", 8, 512, "bf16", "adamw", True),
    case("vit-large", 32, 224, "amp-bf16", "adamw-fused"),
    case("vit-large", 64, 224, "bf16", "adamw", True),
    case("resnet18", 128, 224, "fp32", "sgd-m"),
    case("resnet101", 64, 224, "amp-bf16", "adamw"),
    case("gpt2-large", 2, 1024, "amp-bf16", "adamw-fused", True),
    case("gpt2", 16, 1024, "amp-bf16", "sgd-m", accum=2),
    case("llama-1b", 1, 4096, "bf16", "adamw", True),
    case("llama-160m", 8, 1024, "bf16", mode="infer"),
    case("gpt2", 4, 1024, "amp-bf16", mode="grad"),
    case("llama-160m", 16, 512, "bf16", mode="infer", generate=512),
    case("gpt2", 16, 256, "fp32", mode="infer", generate=256),
]


def name_of(chosen: tuple) -> str:
    return " ".join(str(word) for word in (*chosen[0], *chosen[1], *chosen[1].values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", type=int, default=0)
    parser.add_argument("of", nargs="?", type=int, default=1)
    parser.add_argument("--only", default="", help="cases with these words")
    parser.add_argument("--snapshots", default="", help="a folder for recordings")
    arguments = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(29500 + arguments.part))
    torch.zeros(1, device=DEVICE)
    cases = [c for c in CASES if arguments.only in name_of(c)]
    if any("sharding" in c[1] or c[1].get("offload") == "weights" for c in cases):
        torch.distributed.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1)
    for chosen in cases[arguments.part::arguments.of]:
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        where = os.path.join(arguments.snapshots, name_of(chosen).replace(" ", "_") + ".pickle")
        try:
            result = measure(*chosen[0], **chosen[1], snapshot=where if arguments.snapshots else "")
        except Exception as error:  # noqa: BLE001: one case that fails is one line
            result = dict(case=name_of(chosen), error=repr(error)[:400])
        print(json.dumps(result), flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
