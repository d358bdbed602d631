#!/usr/bin/env python3
"""check_remedy_code.py [VRAMWISE] - the planner's code for a loss in chunks, run by PyTorch.

For small models of four families, with labels of which some are masked: the code that `vramwise plan`
prints gives the loss of transformers itself, and the same gradients. Needs transformers; a GPU is used
where there is one.
"""
import json
import subprocess
import sys

import torch
import torch.nn.functional as F
import transformers

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "vramwise"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = {"vocab_size": 211, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64, "max_position_embeddings": 64}


def small_models():
    """(name for the planner, model)"""
    made = transformers
    yield "gpt2", made.GPT2LMHeadModel(made.GPT2Config(vocab_size=211, n_embd=32, n_layer=2, n_head=4,
                                                       n_positions=64))
    yield "llama-3.2-1b", made.LlamaForCausalLM(made.LlamaConfig(**SMALL, num_key_value_heads=2))
    yield "bert-base", made.BertForMaskedLM(made.BertConfig(**SMALL))
    yield "t5-base", made.T5ForConditionalGeneration(made.T5Config(
        vocab_size=211, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
        decoder_start_token_id=0))


def chunked_code(name):
    """The lines for it, up to the loss; None: the planner offers none at these sizes."""
    for batch in (8, 32, 128, 512):
        done = subprocess.run([PROGRAM, "plan", "--model", name, "--batch", str(batch), "--seq", "512",
                               "--card", "16GiB", "--json"], stdout=subprocess.PIPE, check=False)
        for option in json.loads(done.stdout)["options"]:
            if any("chunks" in change for change in option["changes"]):
                lines = "\n".join(option["code"]).split("\n")
                end = next(i for i, line in enumerate(lines) if ".sum()" in line)
                return "\n".join(lines[:end + 1])
    return None


def check(name, model):
    """Loss and gradients, with and without the chunks."""
    code = chunked_code(name)
    if code is None:
        print(f"{name}: the planner offers no loss in chunks")
        return False
    torch.manual_seed(0)
    model = model.to(DEVICE).train()
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    inputs = torch.randint(0, 211, (5, 23), device=DEVICE)
    labels = inputs.clone()
    labels[torch.rand(labels.shape, device=DEVICE) < 0.4] = -100
    plain = model(input_ids=inputs, labels=labels).loss
    plain.backward()
    wanted = [one.grad.clone() for one in model.parameters() if one.grad is not None]
    model.zero_grad()
    names = {"torch": torch, "F": F, "model": model, "batch": {"input_ids": inputs, "labels": labels}}
    exec(code, names)  # what a reader would paste
    names["loss"].backward()
    got = [one.grad for one in model.parameters() if one.grad is not None]
    off = max((a - b).abs().max().item() for a, b in zip(wanted, got, strict=True))
    is_same = abs(plain.item() - names["loss"].item()) < 1e-5 and off < 1e-5
    print(f"{name}: loss {plain.item():.6f} and {names['loss'].item():.6f}, gradients at most {off:.1e} "
          f"apart: {'ok' if is_same else 'DIFFERENT'}")
    return is_same


results = []
for model_name, small in small_models():
    try:
        results.append(check(model_name, small))
    except Exception as error:  # the other families are still worth knowing
        print(f"{model_name}: {type(error).__name__}: {error}")
        results.append(False)
sys.exit(0 if all(results) else 1)
