#!/usr/bin/env python3
"""test_numbers.py PROGRAM DATA NAMES PALETTE - every size that any command prints follows one rule, and shares add up;
what memory is for is called by one list of names, NAMES, of which PALETTE has the colours on the page.

The rule is base/human_units.h: whole bytes, three digits in KiB and MiB, two decimals from GiB up, and a
unit begins at 1. The commands run over a few recordings, and over a text with an error message.

What is not ours keeps its own digits, and is left out: PyTorch's sentence as the demo prints it, its
memory_summary(), sizes to be typed ("--card 24GiB", without a space), and the marks of a chart's axis.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

RECORDINGS = ("train_eval_phases.native", "oom_fragmented.native", "leak_loss.expand", "graphs.native",
              "eval_with_grad.native", "oom_genuine.expand")
MESSAGE = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 0 has a total capacity "
           "of 139.80 GiB of which 391.38 MiB is free. Including non-PyTorch memory, this process has 139.42 GiB "
           "memory in use. Of the allocated memory 120.00 GiB is allocated by PyTorch, and 18.90 GiB is reserved by "
           "PyTorch but unallocated.\n")

# A number and a unit of bytes, wherever a line was broken.
SIZE = re.compile(r"(?<![\w.,/:])(\d[\d,]*(?:\.\d+)?)(?: +|\n +)(bytes|byte|[KMGTPE]i?B|B)\b(?!/s)")
THREE_DIGITS = r"(?:[1-9]\.\d\d|[1-9]\d\.\d|[1-9]\d\d|10[01]\d|102[0-3])"
RULE = re.compile(rf"(?:(?:0|[1-9]\d{{0,2}}|10[01]\d|102[0-3]) B|{THREE_DIGITS} [KM]iB|"
                  rf"(?:[1-9]\d{{0,2}}|10[01]\d|102[0-3])\.\d\d [GTPE]iB)")
SHARE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?) ?%")
NOT_OURS = (re.compile(r"^\|.*", re.MULTILINE),                              # memory_summary()
            re.compile(r"CUDA out of memory\. Tried to allocate.*?\n\n", re.DOTALL),
            re.compile(r"^[ \d]\d GiB [│|].*", re.MULTILINE),                # the axis of a chart
            re.compile(r"simulated\s+24 GiB card"),                          # a product's name
            re.compile(r"more than 4 GiB|the\s+1 GiB that a context"))       # limits of others, as they state them


def faults_of(text):
    """What breaks the rules in a text."""
    for pattern in NOT_OURS:
        text = pattern.sub("\n", text)
    sizes = [" ".join(match.groups()) for match in SIZE.finditer(text)]
    shares = [match.group(0) for match in SHARE.finditer(text) if float(match.group(1)) > 100]
    return len(sizes), [size for size in sizes if not RULE.fullmatch(size)] + shares


def mixed_moments(text):
    """How many sentences have numbers of two moments, and which of them contradict themselves."""
    bytes_of = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    found = re.search(r"At the peak of reserved memory, ([\d.]+) (\w+) of ([\d.]+) (\w+) were idle; at most "
                      r"([\d.]+) (\w+) were ever live", " ".join(text.split()))
    if found is None:
        return 0, []
    idle, reserved, live = (float(found.group(i)) * bytes_of[found.group(i + 1)] for i in (1, 3, 5))
    return 1, [] if reserved - idle <= 1.01 * live else [found.group(0)]


def check_the_rule():
    """The rule itself accepts and refuses what it should."""
    for text in ("0 B", "512 B", "1023 B", "1.00 KiB", "24.0 MiB", "935 MiB", "1023 MiB", "15.00 GiB", "139.80 GiB"):
        assert faults_of(text) == (1, []), text
    for text in ("1024.00 MiB", "1024 B", "512 bytes", "512.00 MiB", "24 MiB", "15.0 GiB", "15 GiB", "140 GiB",
                 "0.98 GiB", "1024.00 GiB", "1.5 KiB", "3.74 GB", "176.80 % of the time"):
        assert faults_of(text)[1], text


def commands(recordings, message):
    """Command lines, each printing people's text."""
    for path in recordings:
        yield ["stats", path]
        yield ["doctor", path]
        yield ["doctor", path, "--all"]
        yield ["doctor", path, "--card", "4GiB"]
        yield ["replay", path]
        yield ["replay", path, "--card", "4GiB", "--spill", "8GiB"]
        yield ["replay", path, "--card", "4GiB", "--spill", "8GiB", "--stream"]
        yield ["tune", path, "--card", "6GiB"]
        yield ["verify", path]
    yield ["diff", recordings[0], recordings[2]]
    yield ["doctor", message]
    yield ["doctor", message, "--all"]
    yield ["plan", "--model", "gpt2", "--batch", "8", "--seq", "512", "--card", "24GiB"]
    yield ["plan", "--model", "llama-3-8b", "--batch", "1", "--seq", "2048", "--precision", "bf16", "--card", "h200"]
    yield ["plan", "--from", recordings[0], "--batch-now", "8", "--batch", "16", "--card", "24GiB"]
    yield ["plan", "--list"]
    yield ["demo"]
    yield ["demo", "techniques"]


def names_used(program, recording):
    """(command, name) of everything that memory is said to be for."""
    def answer(*words):
        return json.loads(subprocess.run([program, *words, "--json"], check=False, stdout=subprocess.PIPE).stdout)
    for moment in ("peak", "end"):
        for usage in answer("stats", recording)["devices"][0][moment]["categories"]:
            yield "stats", usage["category"]
    for change in answer("diff", recording, recording)["categories"]:
        yield "diff", change["category"]
    for finding in answer("doctor", recording)["findings"]:
        if finding["kind"] == "peak":
            yield from (("doctor", part["name"]) for part in finding["parts"])
    plan = answer("plan", "--model", "gpt2", "--batch", "2", "--seq", "128")["parts"]
    yield from (("plan", name) for name in plan if name not in ("rounding", "context"))


def page_names(palette):
    """The names that have a colour on the page."""
    table = re.search(r"OF_CATEGORY.*?= {(.*?)};", palette.read_text(encoding="utf-8"), re.DOTALL).group(1)
    return set(re.findall(r"^ *'?([a-z-]+)'?:", table, re.MULTILINE))


def foreign_names(program, recordings, header, palette):
    """Names that are not in the list, commands that name nothing, and what has no colour."""
    text = header.read_text(encoding="utf-8")
    names = dict(re.findall(r'#define (VW__CATEGORY_NAME_\w+) "(.*?)"', text))
    known, coloured = set(names.values()), page_names(palette)
    of_stacks = {names[name] for name in re.findall(r"VW__CATEGORY_NAME_\w+", text.partition("VW__CATEGORY_LIST")[2])}
    used = {pair for recording in recordings for pair in names_used(program, recording)}
    silent = {"stats", "diff", "doctor", "plan"} - {command for command, _ in used}
    return ([f"{command}: {name}" for command, name in sorted(used) if name not in known] + sorted(silent)
            + [f"the page: {name}" for name in sorted(coloured - known)]
            + [f"without a colour on the page: {name}" for name in sorted(of_stacks - coloured)])


def main():
    program = sys.argv[1]
    data, header, palette = map(pathlib.Path, sys.argv[2:5])
    check_the_rule()
    recordings = [str(data / "recordings" / f"{name}.pickle.xz") for name in RECORDINGS]
    size_count = fault_count = sentence_count = 0
    with tempfile.TemporaryDirectory(prefix="numbers-") as folder:
        message = pathlib.Path(folder, "error.txt")
        message.write_text(MESSAGE, encoding="utf-8")
        for words in commands(recordings, str(message)):
            result = subprocess.run([program, *words], check=False, encoding="utf-8", stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            count, faults = faults_of(result.stdout)
            sentences, contradictions = mixed_moments(result.stdout)
            sentence_count += sentences
            faults += contradictions
            if result.returncode > 1 or count == 0 and words[0] != "verify":
                faults.append(f"status {result.returncode}, {count} sizes:\n{result.stdout}")
            size_count += count
            fault_count += len(faults)
            for fault in faults:
                print(f"vramwise {' '.join(words)}: {fault}")
    for name in foreign_names(program, recordings[:2], header, palette):
        fault_count += 1
        print(f"not a name of the list: {name}")
    print(f"numbers: {size_count} sizes, {fault_count} faults")
    return 1 if fault_count or size_count == 0 or sentence_count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
