"""measure_plan.py - what training really takes on a GPU, for the planner to be held against.

    python3 measure_plan.py [PART OF] [--only WORDS] [--newer] [--snapshots DIR]

The cases are those that the first table (tests/data/plan/truth.jsonl) lacks: other families and
classes, an optimizer in host memory, FSDP2 on one GPU, a key/value cache. PART of OF lets several processes share
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
# Kinds of a class that is not the family's usual one, or of a family whose classes have other names.
SMALL_BERT = dict(num_hidden_layers=6)
MINI = dict(num_hidden_layers=6, hidden_size=768, num_attention_heads=12, intermediate_size=3072)
ENCODER_DECODER = dict(d_model=768, encoder_layers=4, decoder_layers=4, encoder_attention_heads=12,
                       decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072)
KINDS |= {
    "bert-classes": ("Bert", SMALL_BERT, "BertForSequenceClassification"),
    "bert-tokens": ("Bert", SMALL_BERT, "BertForTokenClassification"),
    "bert-answers": ("Bert", SMALL_BERT, "BertForQuestionAnswering"),
    "bert-embedding": ("Bert", dict(num_hidden_layers=6, hidden_size=384, intermediate_size=1536,
                                    num_attention_heads=12), "BertModel"),
    "roberta-classes": ("Roberta", dict(num_hidden_layers=6, vocab_size=50265,
                                        max_position_embeddings=514, type_vocab_size=1),
                        "RobertaForSequenceClassification"),
    "llama-classes": ("Llama", dict(num_hidden_layers=6, hidden_size=768, num_attention_heads=12,
                                    num_key_value_heads=12, intermediate_size=3072,
                                    vocab_size=32000, max_position_embeddings=2048, pad_token_id=0),
                      "LlamaForSequenceClassification"),
    "t5-encoder": ("T5", dict(d_model=768, d_ff=2048, num_layers=6, num_heads=12, d_kv=64,
                              feed_forward_proj="gated-gelu"), "T5EncoderModel"),
    "xlm-roberta-6l": ("XLMRoberta", dict(num_hidden_layers=6, vocab_size=250002,
                                          max_position_embeddings=514, type_vocab_size=1),
                       "XLMRobertaForMaskedLM"),
    "camembert-6l": ("Camembert", dict(num_hidden_layers=6, vocab_size=32005,
                                       max_position_embeddings=514, type_vocab_size=1),
                     "CamembertForMaskedLM"),
    "distilbert": ("DistilBert", {}, "DistilBertForMaskedLM"),
    "distilbert-classes": ("DistilBert", {}, "DistilBertForSequenceClassification"),
    "electra-6l": ("Electra", dict(embedding_size=768, **MINI), "ElectraForMaskedLM"),
    "electra-small-classes": ("Electra", {}, "ElectraForSequenceClassification"),
    "deberta-v2-6l": ("DebertaV2", dict(vocab_size=128100, relative_attention=True,
                                        position_buckets=256, norm_rel_ebd="layer_norm",
                                        share_att_key=True, pos_att_type=["p2c", "c2p"],
                                        max_relative_positions=-1, position_biased_input=False,
                                        type_vocab_size=0, **MINI),
                      "DebertaV2ForMaskedLM"),
    "deberta-v2-classes": ("DebertaV2", dict(vocab_size=128100, relative_attention=True,
                                             position_buckets=256, norm_rel_ebd="layer_norm",
                                             share_att_key=True, pos_att_type=["p2c", "c2p"],
                                             max_relative_positions=-1, pooler_hidden_size=768,
                                             position_biased_input=False, type_vocab_size=0, **MINI),
                           "DebertaV2ForSequenceClassification"),
    "modernbert-6l": ("ModernBert", dict(num_hidden_layers=6), "ModernBertForMaskedLM"),
    "modernbert-classes": ("ModernBert", dict(num_hidden_layers=6),
                           "ModernBertForSequenceClassification"),
    "mt5-small": ("MT5", {}, "MT5ForConditionalGeneration"),
    "bart-4l": ("Bart", dict(**ENCODER_DECODER), "BartForConditionalGeneration"),
    "mbart-4l": ("MBart", dict(vocab_size=64000, **ENCODER_DECODER), "MBartForConditionalGeneration"),
    "pegasus-4l": ("Pegasus", dict(vocab_size=64000, **ENCODER_DECODER),
                   "PegasusForConditionalGeneration"),
    "marian-4l": ("Marian", dict(vocab_size=58101, **ENCODER_DECODER), "MarianMTModel"),
    "opt-6l": ("OPT", dict(hidden_size=768, num_hidden_layers=6, ffn_dim=3072)),
    "opt-350m-4l": ("OPT", dict(hidden_size=1024, num_hidden_layers=4, ffn_dim=4096,
                                num_attention_heads=16, word_embed_proj_dim=512,
                                do_layer_norm_before=False)),
    "gptj-4l": ("GPTJ", dict(n_layer=4, n_embd=1024, n_head=16, rotary_dim=64)),
    "gpt-neo-4l": ("GPTNeo", dict(num_layers=4, hidden_size=768, num_heads=12,
                                  attention_types=[[["global", "local"], 2]])),
    "gpt-neox-6l": ("GPTNeoX", dict(vocab_size=50304, max_position_embeddings=2048, **MINI)),
    "bloom-4l": ("Bloom", dict(n_layer=4, hidden_size=1024, n_head=16, vocab_size=64000)),
    "falcon-7b-4l": ("Falcon", dict(num_hidden_layers=4, hidden_size=1024, num_attention_heads=16,
                                    multi_query=True, parallel_attn=True, bias=False, alibi=False,
                                    new_decoder_architecture=False)),
    "falcon-40b-4l": ("Falcon", dict(num_hidden_layers=4, hidden_size=1024, num_attention_heads=16,
                                     num_kv_heads=4, parallel_attn=True, bias=False, alibi=False,
                                     new_decoder_architecture=True)),
    "mpt-4l": ("Mpt", dict(d_model=1024, n_heads=16, n_layers=4)),
    "stablelm-4l": ("StableLm", dict(num_hidden_layers=4, hidden_size=1024, num_attention_heads=16,
                                     num_key_value_heads=16, intermediate_size=2816)),
    "starcoder2-6l": ("Starcoder2", dict(num_key_value_heads=2, vocab_size=49152,
                                         residual_dropout=0.1, embedding_dropout=0.1, **MINI)),
    "granite-6l": ("Granite", dict(num_key_value_heads=4, vocab_size=49152,
                                   attention_multiplier=0.0078125, embedding_multiplier=12.0,
                                   logits_scaling=8.0, residual_multiplier=0.22,
                                   tie_word_embeddings=True, **MINI)),
    "smollm3-8l": ("SmolLM3", dict(num_hidden_layers=8, hidden_size=768, num_attention_heads=12,
                                   num_key_value_heads=4, intermediate_size=3072, vocab_size=128256,
                                   tie_word_embeddings=True, pad_token_id=0)),
    "olmo-6l": ("Olmo", dict(vocab_size=50304, **MINI)),
    "olmo2-6l": ("Olmo2", dict(vocab_size=50304, **MINI)),
    "olmo3-6l": ("Olmo3", dict(vocab_size=50304, sliding_window=512, **MINI)),
    "cohere-6l": ("Cohere", dict(vocab_size=64000, num_key_value_heads=12, **MINI)),
    "cohere2-6l": ("Cohere2", dict(vocab_size=64000, num_key_value_heads=4, sliding_window=512,
                                   **MINI)),
    "glm-6l": ("Glm", dict(vocab_size=64000, num_key_value_heads=4, head_dim=64, pad_token_id=0,
                           **MINI)),
    "glm4-6l": ("Glm4", dict(vocab_size=64000, num_key_value_heads=4, head_dim=64, pad_token_id=0,
                             **MINI)),
    "qwen2-6l": ("Qwen2", dict(vocab_size=151936, num_key_value_heads=4, **MINI)),
    "qwen2-moe-4l": ("Qwen2Moe", dict(num_hidden_layers=4, hidden_size=768, num_attention_heads=12,
                                      num_key_value_heads=12, intermediate_size=2048,
                                      moe_intermediate_size=512,
                                      shared_expert_intermediate_size=2048, num_experts=16,
                                      num_experts_per_tok=4, vocab_size=64000)),
    "qwen3-moe-4l": ("Qwen3Moe", dict(num_hidden_layers=4, hidden_size=768, num_attention_heads=12,
                                      num_key_value_heads=4, head_dim=64, intermediate_size=2048,
                                      moe_intermediate_size=512, num_experts=16,
                                      num_experts_per_tok=4, vocab_size=64000)),
    "dinov2-6l": ("Dinov2", dict(num_labels=1000, image_size=518, patch_size=14,
                                 num_hidden_layers=6), "Dinov2ForImageClassification"),
    "deit-6l": ("DeiT", dict(num_labels=1000, num_hidden_layers=6), "DeiTForImageClassification"),
    "swin-tiny": ("Swin", dict(num_labels=1000), "SwinForImageClassification"),
    "convnext-tiny": ("ConvNext", dict(num_labels=1000), "ConvNextForImageClassification"),
    "vit-6l": ("ViT", dict(num_labels=1000, num_hidden_layers=6), "ViTForImageClassification"),
    "clip-b32": ("CLIP", {}, "CLIPModel"),
    "siglip-b16": ("Siglip", {}, "SiglipModel"),
    "mpnet-6l": ("MPNet", dict(vocab_size=30527, max_position_embeddings=514, **MINI),
                 "MPNetForMaskedLM"),
    # Its layers are left out at random, by default: no two steps would be alike.
    "m2m-100-4l": ("M2M100", dict(vocab_size=64000, encoder_layerdrop=0.0, decoder_layerdrop=0.0,
                                  **ENCODER_DECODER), "M2M100ForConditionalGeneration"),
    "bart-classes": ("Bart", dict(num_labels=3, **ENCODER_DECODER),
                     "BartForSequenceClassification"),
    "swin-base": ("Swin", dict(num_labels=1000, embed_dim=128, depths=[2, 2, 18, 2],
                               num_heads=[4, 8, 16, 32]), "SwinForImageClassification"),
    "whisper-base": ("Whisper", dict(d_model=512, encoder_layers=6, decoder_layers=6,
                                     encoder_attention_heads=8, decoder_attention_heads=8,
                                     encoder_ffn_dim=2048, decoder_ffn_dim=2048),
                     "WhisperForConditionalGeneration"),
    "whisper-tiny": ("Whisper", dict(d_model=384, encoder_layers=4, decoder_layers=4,
                                     encoder_attention_heads=6, decoder_attention_heads=6,
                                     encoder_ffn_dim=1536, decoder_ffn_dim=1536),
                     "WhisperForConditionalGeneration"),
}
HEADS = {"Bert": "BertForMaskedLM", "Roberta": "RobertaForMaskedLM", "ViT": "ViTForImageClassification",
         "T5": "T5ForConditionalGeneration", "GPT2": "GPT2LMHeadModel",
         "Gemma3Text": "Gemma3ForCausalLM"}
NO_ATTENTION_CHOICE = ("T5", "MT5", "DebertaV2", "ConvNext", "Swin", "Bloom", "Mpt")
NO_CACHE_CHOICE = ("ViT", "Dinov2", "DeiT", "Swin", "ConvNext", "CLIP", "Siglip", "DistilBert",
                   "DebertaV2", "ModernBert")
FEATURES, FRAMES = 80, 3000  # of half a minute of sound, for Whisper


def build(kind: str, dtype, attention: str):
    torch.set_default_dtype(dtype)
    try:
        if kind not in KINDS:
            import torchvision
            return getattr(torchvision.models, kind)().to(DEVICE), None
        import transformers
        family, fields, *named = KINDS[kind]
        fields = dict(fields)
        if family not in NO_ATTENTION_CHOICE:
            fields["attn_implementation"] = attention
        if family not in NO_CACHE_CHOICE:
            fields["use_cache"] = False
        config = getattr(transformers, family + "Config")(**fields)
        name = named[0] if named else HEADS.get(family, family + "ForCausalLM")
        config.architectures = [name]
        return getattr(transformers, name)(config).to(DEVICE), config
    finally:
        torch.set_default_dtype(torch.float32)


def loss_of(model, config, B: int, T: int, dtype):
    """One forward pass on random data of the class's kind."""
    name = type(model).__name__

    def words(high: int = 30000):
        return torch.randint(1, high, (B, T), device=DEVICE)

    def image(side: int):
        return torch.randn(B, 3, side, side, device=DEVICE, dtype=dtype)

    if config is None:
        out = model(image(T))
        return F.cross_entropy(out, torch.randint(0, 1000, (B,), device=DEVICE))
    if name.endswith("ForImageClassification"):
        out = model(pixel_values=image(T)).logits
        return F.cross_entropy(out, torch.randint(0, 1000, (B,), device=DEVICE))
    if name in ("CLIPModel", "SiglipModel"):
        return model(input_ids=words(), pixel_values=image(config.vision_config.image_size),
                     return_loss=True).loss
    if name.startswith("Whisper"):
        sound = torch.randn(B, FEATURES, FRAMES, device=DEVICE, dtype=dtype)
        return model(input_features=sound, labels=words()).loss
    if name.endswith("SequenceClassification"):
        ids = words()
        ids[:, -1] = config.eos_token_id or 0  # Bart classifies what is before it
        return model(input_ids=ids, labels=torch.randint(0, 2, (B,), device=DEVICE)).loss
    if name.endswith("TokenClassification"):
        return model(input_ids=words(), labels=words(2)).loss
    if name.endswith("QuestionAnswering"):
        at = torch.randint(0, T, (B,), device=DEVICE)
        return model(input_ids=words(), start_positions=at, end_positions=at).loss
    if name.endswith(("EncoderModel", "BertModel")):
        return model(input_ids=words()).last_hidden_state.float().mean()
    ids = words()
    return model(input_ids=ids, labels=ids).loss


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
            accum=1, offload="none", sharding="none", master=False, generate=0, lora=0, static=False,
            snapshot="") -> dict:
    torch.cuda.reset_peak_memory_stats()
    has_16_bits = prec in ("bf16", "fp16") and not (master and sharding == "fsdp")
    model, config = build(kind, DTYPES[prec] if has_16_bits else torch.float32, attn)
    if lora:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=lora, lora_dropout=0.0))
    model.train(mode == "train")
    if ckpt:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    result = dict(kind=kind, B=B, T=T, prec=prec, opt=opt, ckpt=ckpt, attn=attn, mode=mode,
                  accum=accum, params=sum(p.numel() for p in model.parameters()),
                  config=config.to_dict() if config else None)
    result.update({name: value for name, value in dict(
        offload=offload, sharding=sharding, master=master, generate=generate, lora=lora,
        static=static).items()
        if value not in ("none", False, 0)})
    if sharding == "fsdp" or offload == "weights":
        shard(model, master, offload == "weights")
        gc.collect()
    result["weights"] = torch.cuda.memory_allocated()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = optimizer_of(opt, trained, offload) if mode == "train" else None

    def forward():
        with torch.autocast("cuda", dtype=DTYPES.get(prec), enabled=prec.startswith("amp")):
            return loss_of(model, config, B, T, DTYPES[prec] if has_16_bits else torch.float32)

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
                               pad_token_id=0,
                               **({"cache_implementation": "static"} if static else {}))
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
FIRST_NEWER = len(CASES)
# Of each newer kind: training in fp32 and under autocast; some by inference as well.
NEWER = {  # batch, tokens or pixels
    "bert-classes": (32, 128), "bert-tokens": (32, 128), "bert-answers": (16, 384),
    "roberta-classes": (32, 128), "llama-classes": (8, 512),
    "xlm-roberta-6l": (16, 256), "camembert-6l": (16, 256), "distilbert": (16, 512),
    "distilbert-classes": (32, 256), "electra-6l": (16, 256), "electra-small-classes": (32, 128),
    "deberta-v2-6l": (8, 256), "deberta-v2-classes": (8, 256), "modernbert-6l": (8, 512),
    "modernbert-classes": (8, 512), "mt5-small": (8, 256), "bart-4l": (8, 512),
    "mbart-4l": (8, 512), "pegasus-4l": (8, 512), "marian-4l": (8, 512),
    "opt-6l": (8, 512), "opt-350m-4l": (8, 512), "gptj-4l": (8, 512), "gpt-neo-4l": (8, 512),
    "gpt-neox-6l": (8, 512), "bloom-4l": (8, 512), "falcon-7b-4l": (8, 512),
    "falcon-40b-4l": (8, 512), "mpt-4l": (8, 512), "stablelm-4l": (8, 512),
    "starcoder2-6l": (8, 512), "granite-6l": (8, 512), "smollm3-8l": (8, 512),
    "olmo-6l": (8, 512), "olmo2-6l": (8, 512), "olmo3-6l": (4, 1024), "cohere-6l": (8, 512),
    "cohere2-6l": (4, 1024), "glm-6l": (8, 512), "glm4-6l": (8, 512), "qwen2-6l": (8, 512),
    "qwen2-moe-4l": (8, 512), "qwen3-moe-4l": (8, 512),
    "dinov2-6l": (32, 224), "deit-6l": (32, 224), "swin-tiny": (32, 224),
    "convnext-tiny": (32, 224), "vit-6l": (32, 224), "clip-b32": (32, 77), "siglip-b16": (16, 64),
    "whisper-tiny": (8, 128),
    "efficientnet_b0": (32, 224), "efficientnet_v2_s": (16, 224), "mobilenet_v2": (32, 224),
    "mobilenet_v3_large": (32, 224), "vgg16": (16, 224), "vgg16_bn": (16, 224),
    "densenet121": (16, 224),
    "mpnet-6l": (16, 256), "m2m-100-4l": (8, 512), "bart-classes": (8, 256),
    "swin-base": (16, 224), "whisper-base": (8, 128), "efficientnet_b4": (16, 224),
    "resnet50": (32, 224),
}
EAGER = ("gptj-4l", "gpt-neo-4l")  # transformers has nothing else for them
for newer, (batch, length) in NEWER.items():
    attention = {"attn": "eager"} if newer in EAGER else {}
    CASES += [case(newer, batch, length, **attention),
              case(newer, batch, length, "amp-bf16", **attention)]
CASES += [
    case("bert-embedding", 256, 256, mode="infer"),
    case("t5-encoder", 32, 256, "bf16", mode="infer"),
    case("t5-encoder", 16, 256),
    case("llama-1b", 4, 1024, "bf16", mode="infer"),
    case("bert-classes", 64, 128, "bf16", mode="infer"),
    case("bart-4l", 8, 512, ckpt=True),
    case("olmo2-6l", 8, 512, "bf16", "adamw-fused"),
    case("opt-6l", 8, 512, "bf16", "adamw-fused"),
    case("falcon-7b-4l", 8, 512, "bf16", "adamw", True),
    case("qwen3-moe-4l", 8, 512, "bf16", "adamw-fused"),
    case("distilbert-classes", 32, 256, "bf16", "adamw-fused"),
    case("swin-tiny", 32, 224, "fp32", "sgd-m", mode="train"),
    case("efficientnet_b0", 64, 224, "fp32", "sgd-m"),
    case("whisper-tiny", 4, 128, "fp32", mode="infer"),
    case("opt-6l", 8, 256, "bf16", mode="infer", generate=256),
    case("falcon-7b-4l", 8, 256, "bf16", mode="infer", generate=256),
    case("llama-160m", 4, 1024, "amp-bf16", lora=16),
    case("llama-160m", 4, 1024, "bf16", lora=16),
    case("gpt2", 8, 512, "fp32", lora=8),
    case("llama-160m", 4, 1024, "amp-bf16", ckpt=True, lora=16),
    case("llama-160m", 8, 256, "bf16", mode="infer", generate=64, static=True),
]


def name_of(chosen: tuple) -> str:
    return " ".join(str(word) for word in (*chosen[0], *chosen[1], *chosen[1].values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", type=int, default=0)
    parser.add_argument("of", nargs="?", type=int, default=1)
    parser.add_argument("--only", default="", help="cases with these words")
    parser.add_argument("--newer", action="store_true", help="only the kinds that came later")
    parser.add_argument("--snapshots", default="", help="a folder for recordings")
    arguments = parser.parse_args()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(29500 + arguments.part))
    torch.zeros(1, device=DEVICE)
    cases = [c for c in CASES[FIRST_NEWER if arguments.newer else 0:]
             if arguments.only in name_of(c)]
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
