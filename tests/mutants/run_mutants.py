#!/usr/bin/env python3
"""run_mutants.py - breaks one rule of the engine at a time, and expects a recording to notice.

    run_mutants.py --compiler CC --source FOLDER --object VERIFY_ALL.o --library LIB.a ... [NAME ...]

A verifier that finds no difference proves something only if it would have found one. Each mutant
below is one rule of PyTorch's allocator, turned into a plausible mistake. Its file is copied, changed
and compiled (a header: every engine file that sees it), linked with verify_all.c and everything else as
built, and run over tests/data/recordings. The run fails if a mutant does not compile or survives, or if
the engine as it is differs from a recording.

A name restricts the run to mutants whose rule contains it.
"""
import argparse
import concurrent.futures
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ENGINE = "src/engine/torch/torch_engine.c"
RECLAIM = "src/engine/torch/torch_reclaim.c"
EXPANDABLE = "src/engine/torch/torch_expandable.c"
ROUNDING = "src/engine/torch/torch_rounding.c"
ROUNDING_H = "src/engine/torch/torch_rounding.h"
FREE_INDEX_H = "src/engine/free_index.h"
SHELF_H = "src/engine/shelf.h"

# (the rule that is broken, file, text that occurs there once, replacement)
MUTANTS = [
    # where a block lives
    ("an exact fit is a fit", ENGINE,
     "vw__free_index_best_fit(&search->lane->free, search->size_bytes)",
     "vw__free_index_best_fit(&search->lane->free, search->size_bytes + 1)"),
    ("among equals the lowest address", FREE_INDEX_H,
     "    return a->address < b->address;\n}\n\nVW__TREE_INLINE bool vw__block_address_before",
     "    return a->address > b->address;\n}\n\nVW__TREE_INLINE bool vw__block_address_before"),
    ("small blocks split for 512 bytes", ROUNDING_H,
     "return rest_bytes >= VW__TORCH_MIN_BLOCK_BYTES;",
     "return rest_bytes > VW__TORCH_MIN_BLOCK_BYTES;"),
    ("large blocks split for more than 1 MiB only", ROUNDING_H,
     "rest_bytes > VW__TORCH_SMALL_BYTES;", "rest_bytes >= VW__TORCH_MIN_BLOCK_BYTES;"),
    ("blocks for oversize requests are not split", ROUNDING_H,
     "return rounded_bytes < max_split_bytes && rest_bytes",
     "return rest_bytes"),
    ("a freed block joins the one before", SHELF_H,
     "bool joins_previous = previous != NULL && previous->state == VW__BLOCK_FREE;",
     "bool joins_previous = previous != NULL && previous->state == VW__BLOCK_FREE && next == NULL;"),
    ("a freed block joins the one behind", SHELF_H,
     "bool joins_next = next != NULL && next->state == VW__BLOCK_FREE;",
     "bool joins_next = next != NULL && next->state == VW__BLOCK_FREE && previous != NULL;"),
    ("up to 1 MiB is small", ROUNDING_H,
     "return rounded_bytes <= VW__TORCH_SMALL_BYTES;",
     "return rounded_bytes < VW__TORCH_SMALL_BYTES;"),
    ("from 10 MiB on a segment of its own", ROUNDING_H,
     "if (rounded_bytes < VW__TORCH_MIN_LARGE_BYTES)",
     "if (rounded_bytes <= VW__TORCH_MIN_LARGE_BYTES)"),
    # oversize blocks
    ("oversize blocks are for oversize requests", ENGINE,
     "            return NULL; /* oversize blocks are for oversize requests */",
     "            return block;"),
    ("oversize blocks may be larger by the slack", ENGINE,
     "search->size_bytes + engine->conf.settings.max_non_split_rounding_bytes) {",
     "search->size_bytes + engine->conf.settings.large_segment_size_bytes) {"),
    ("one oversize block is given back before all", RECLAIM,
     "        *is_enough = true;\n        return release_segment(engine, block);",
     "        return VW_OK;"),
    ("several oversize blocks, until they are enough", RECLAIM,
     "while (block != NULL && released_bytes < wanted_bytes && block->size_bytes >= max_split_bytes)",
     "while (block != NULL && released_bytes == 0 && block->size_bytes >= max_split_bytes)"),
    ("as much as the request needs is given back", RECLAIM,
     "uint64_t wanted_bytes = vw__max_u64(search->size_bytes, max_split_bytes);",
     "uint64_t wanted_bytes = max_split_bytes;"),
    # roundup_power2_divisions
    ("small sizes are not rounded by divisions", ROUNDING,
     "requested_bytes <= VW__TORCH_MIN_BLOCK_BYTES * divisions)",
     "requested_bytes < VW__TORCH_MIN_BLOCK_BYTES * divisions / 2)"),
    ("a size on a division stays", ROUNDING,
     "return lower_bytes == size_bytes ? size_bytes : lower_bytes + step_bytes;",
     "return lower_bytes + step_bytes;"),
    ("divisions by the size's power of two", ROUNDING_H,
     "unsigned index = log2 > 20 ? log2 - 20 : 0;", "unsigned index = log2 > 19 ? log2 - 19 : 0;"),
    # limits and what follows
    ("the limit counts the whole segment", ENGINE,
     "uint64_t wanted_bytes = engine->base.held_bytes + search->segment_bytes;",
     "uint64_t wanted_bytes = engine->base.held_bytes + search->size_bytes;"),
    ("what reaches the limit exactly is allowed", ENGINE,
     "if (wanted_bytes > engine->base.limit_bytes)",
     "if (wanted_bytes >= engine->base.limit_bytes)"),
    ("only the last attempt is a retry", ENGINE,
     "    if (is_retry)\n        counters->num_alloc_retries++;",
     "    counters->num_alloc_retries++;"),
    ("large before small is given back", RECLAIM,
     "        VW__TRY(release_shelf(engine, &engine->base.shelves[VW__ENGINE_LARGE]));\n"
     "        VW__TRY(release_shelf(engine, &engine->base.shelves[VW__ENGINE_SMALL]));",
     "        VW__TRY(release_shelf(engine, &engine->base.shelves[VW__ENGINE_SMALL]));\n"
     "        VW__TRY(release_shelf(engine, &engine->base.shelves[VW__ENGINE_LARGE]));"),
    # garbage collection
    ("garbage is at least as old as the mean", RECLAIM,
     "(double)age < oldest_kept)", "(double)age <= oldest_kept)"),
    ("garbage is swept until enough is gone", RECLAIM,
     "    while (reclaimed_bytes < target_bytes && has_freed && block_count > 0)",
     "    if (reclaimed_bytes < target_bytes && has_freed && block_count > 0)"),
    ("a sweep does not stop at the target", RECLAIM,
     "            *reclaimed_bytes += size_bytes;",
     "            *reclaimed_bytes += size_bytes;\n            return VW_OK;"),
    ("ages count searches", ENGINE,
     "    if (engine->counts_ages)\n        search->shelf->clock++;\n    if (search->lane == NULL)",
     "    if (search->lane == NULL)"),
    ("split blocks have no part in the mean age", RECLAIM,
     "            if (!vw__block_is_split(block)) {\n                total_age",
     "            if (block != NULL) {\n                total_age"),
    # expandable segments
    ("the less growable block first", ENGINE,
     "growable_bytes(next) >= growable_bytes(block))", "growable_bytes(next) > 0)"),
    ("of equally growable blocks the first", ENGINE,
     "growable_bytes(next) >= growable_bytes(block))",
     "growable_bytes(next) > growable_bytes(block))"),
    ("growth begins in the free block before", EXPANDABLE,
     "            start = start->previous;", "            start = unmapped;"),
    ("large segments grow in large pages", EXPANDABLE,
     "                              : engine->conf.settings.large_segment_size_bytes;",
     "                              : VW__TORCH_SMALL_BUFFER_BYTES;"),
    ("only what is missing is mapped", EXPANDABLE,
     "uint64_t missing_bytes = search->size_bytes - (*block)->size_bytes;",
     "uint64_t missing_bytes = search->size_bytes;"),
    # private pools and streams
    ("unsplit pools hand out whole blocks", ENGINE,
     "    if (pool != NULL && pool->no_split)\n        return false;\n", ""),
    ("private pools are kept while in use", RECLAIM,
     "if (pool->use_count != 0 || (is_one", "if ((is_one"),
]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--source", required=True, type=pathlib.Path)
    parser.add_argument("--object", required=True, help="verify_all.c, compiled")
    parser.add_argument("--library", required=True, action="append",
                        help="static libraries, those that need others first")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


class Failure(Exception):
    pass


def run(command, what):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{what}: {done.stderr.strip()[:600]}")


def compile_file(options, source, folder, output):
    includes = ["-I", str(folder)] if folder is not None else []
    run([options.compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-w", *includes,
         "-I", str(options.source / "include"), "-I", str(options.source / "src"),
         "-c", str(source), "-o", str(output)], "it does not compile")


@functools.lru_cache(maxsize=None)
def included_by(path):
    """Our own headers that a file names."""
    return re.findall(r'^#include "(.+)"', path.read_text(encoding="utf-8"), re.MULTILINE)


def sees(options, path, header):
    """Whether the file includes the header, itself or through others."""
    seen, left = set(), [path]
    while left:
        for name in set(included_by(left.pop())) - seen:
            seen.add(name)
            left += [place for place in (options.source / "src" / name,
                                         options.source / "include" / name) if place.exists()]
    return header in seen


def mutate(options, mutant, folder):
    """Writes the changed file and compiles what depends on it: the objects."""
    _, path, before, after = mutant
    text = (options.source / path).read_text(encoding="utf-8")
    if text.count(before) != 1:
        raise Failure(f"the text to change occurs {text.count(before)} times in {path}")
    below_src = pathlib.PurePath(path).relative_to("src")
    changed = folder / below_src
    changed.parent.mkdir(parents=True)
    changed.write_text(text.replace(before, after), encoding="utf-8")
    if changed.suffix == ".c":
        compile_file(options, changed, None, folder / "changed.o")
        return [folder / "changed.o"]
    objects = []  # a header: found in our folder before the real one
    for source in sorted((options.source / "src/engine").rglob("*.c")):
        if sees(options, source, str(below_src)):
            objects.append(folder / (source.stem + ".o"))
            compile_file(options, source, folder, objects[-1])
    return objects


def link(options, objects, program):
    run([options.compiler, *map(str, objects), options.object, *options.library,
         "-lz", "-llzma", "-lzstd", "-lpthread", "-ldl", "-lm", "-o", str(program)],
        "it does not link")


def verify(options, program):
    recordings = options.source / "tests/data/recordings"
    try:
        return subprocess.run([program, recordings], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        raise Failure("it does not end") from None


def try_mutant(options, mutant):
    """None if a recording noticed, else what is wrong; and a line to show."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            objects = mutate(options, mutant, folder)
            link(options, objects, folder / "verify")
            done = verify(options, folder / "verify")
        except Failure as failure:
            return str(failure), ""
    if done.returncode == 0:
        return "no recording noticed", ""
    if done.returncode == 1:
        return None, done.stdout.strip()
    if done.returncode < 0:
        return None, f"the verifier died of signal {-done.returncode}"
    return done.stdout.strip() or f"exit status {done.returncode}", ""


def check_engine_as_it_is(options):
    with tempfile.TemporaryDirectory() as name:
        program = pathlib.Path(name) / "verify"
        link(options, [], program)
        done = verify(options, program)
    if done.returncode != 0:
        raise Failure(f"the engine as it is differs already: {done.stdout.strip()}")


def main():
    options = parse_arguments()
    chosen = [m for m in MUTANTS if not options.names or any(n in m[0] for n in options.names)]
    try:
        check_engine_as_it_is(options)
    except Failure as failure:
        sys.exit(str(failure))
    bad_count = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as workers:
        results = workers.map(lambda mutant: try_mutant(options, mutant), chosen)
        for mutant, (complaint, noticed) in zip(chosen, results):
            bad_count += complaint is not None
            print(f"{'noticed' if complaint is None else 'FAILED '}  {mutant[0]}: "
                  f"{noticed if complaint is None else complaint}", flush=True)
    print(f"{len(chosen) - bad_count} of {len(chosen)} broken rules were noticed")
    sys.exit(1 if bad_count or not chosen else 0)


main()
