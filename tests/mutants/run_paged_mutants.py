#!/usr/bin/env python3
"""run_paged_mutants.py - breaks one rule of engine "vramwise" at a time, and expects a test to notice.

    run_paged_mutants.py --compiler CC --source FOLDER --test NAME=TEST.o ... --library LIB.a ...
                         [NAME ...]

run_mutants.py does this for engine "torch", with recordings of PyTorch as its judge. Nobody else has
our own engine's rules, so its unit tests judge: the changed file is linked with each of them, in the
order given, until one fails, crashes or does not end. A mutant that none notices fails the run; so does
a test that fails on the engine as it is.

A name restricts the run to mutants whose rule contains it.
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

FOLDER = "src/engine/paged/"

# (the rule that is broken, file, text that occurs there once, replacement)
MUTANTS = [
    # orders between streams
    ("another stream waits for the last use", "paged_handles.c",
     "    if (old_stream == stream)\n        return VW_OK;", "    if (stream != ~0u)\n        return VW_OK;"),
    ("an old mapping goes only after its mark", "paged_handles.c",
     "    if (!is_complete && !can_wait)\n        return VW_ERR_NOT_READY;",
     "    if (!is_complete && !can_wait)\n        is_complete = true;"),
    ("a trim waits for ghosts", "paged_handles.c",
     "    if (!is_complete)\n        VW__TRY(vw__paged_device(engine)->event_synchronize(vw__paged_context(engine),\n"
     "                                                            ghost->mark->event));", ""),
    ("a trim waits for the stream of a home", "paged_reclaim.c",
     "        if (lane != waited_for)", "        if (lane == NULL)"),
    ("a mark is for one call only", "paged_miss.c", "    engine->call++;\n    engine->stats.misses++;",
     "    engine->call = 1;\n    engine->stats.misses++;"),
    ("the end waits for work", "paged_handles.c",
     "        (void)vw__paged_device(engine)->synchronize(vw__paged_context(engine));", ";"),
    # what stays where it is
    ("pinned handles are not candidates", "paged_survey.c",
     "handle->pin_count == 0 &&", "true &&"),
    ("a handle with a live block in front is not free", "paged_survey.c",
     "if (place->address >= block->address && place_end <= end", "if (place_end <= end"),
    ("a handle with a live block behind is not free", "paged_survey.c",
     "if (place->address >= block->address && place_end <= end", "if (place->address >= block->address"),
    ("private pools in use keep their handles", "paged_survey.c",
     "kind <= VW__ENGINE_LARGE && !vw__private_is_in_use(pool);", "kind <= VW__ENGINE_LARGE;"),
    ("released private pools do not", "paged_survey.c",
     "kind <= VW__ENGINE_LARGE && !vw__private_is_in_use(pool);", "kind <= VW__ENGINE_LARGE && pool->use_count < 0;"),
    ("lanes of captured streams are left alone", "paged_survey.c",
     "        if (engine->base.scopes != NULL && vw__engine_is_capturing(&engine->base, lane->stream))\n"
     "            continue;", ""),
    ("during capture nothing moves", "paged_survey.c",
     "    if (vw__engine_is_capturing(&engine->base, stream)) {\n", "    if (stream == ~0u) {\n"),
    ("nor is anything waited for", "paged_miss.c",
     "    {NULL, false, wait_for_others},", "    {NULL, true, wait_for_others},"),
    # segments of one handle
    ("a whole segment is pinned", "paged_whole.c",
     "->handle->pin_count = OWN_PIN;", "->handle->pin_count = 0;"),
    ("whole segments of pools in use stay", "paged_whole.c",
     "if (vw__private_is_in_use(pool) || !pool->one_handle ||", "if (!pool->one_handle ||"),
    ("whole segments in use stay", "paged_whole.c",
     "vw__segment_is_whole(block->segment) && !vw__block_is_split(block) &&",
     "vw__segment_is_whole(block->segment) &&"),
    ("whole segments that others pinned stay", "paged_whole.c", "->handle->pin_count == OWN_PIN;",
     "->handle->pin_count != 0;"),
    ("a whole segment goes after its stream's work", "paged_whole.c",
     "        if (!is_waited_for)\n            VW__TRY(wait_for(engine, lane));", ""),
    ("idle pages go after their stream's work", "paged_whole.c",
     "        if (lane != waited_for)\n            VW__TRY(wait_for(engine, lane));", ""),
    ("idle pages make room for a whole segment", "paged_whole.c",
     "    VW__TRY(release_pages(request, least_bytes, &given_bytes));\n", ""),
    ("no more of them than it takes", "paged_whole.c",
     "i < engine->candidate_count && *given_bytes < wanted_bytes; i++)", "i < engine->candidate_count; i++)"),
    ("near the limit a whole segment is no larger than it must be", "paged_whole.c",
     "    if (status == VW_ERR_OUT_OF_MEMORY && least_bytes < usual_bytes)\n"
     "        status = try_size(request, least_bytes, out);\n", ""),
    ("a whole segment keeps the pool's limit", "paged_whole.c",
     "    if (held_bytes > request->most_bytes || size_bytes > request->most_bytes - held_bytes)\n"
     "        return VW_ERR_OUT_OF_MEMORY;\n", ""),
    ("in a capture nothing goes back for a whole segment", "paged_whole.c",
     "if (status != VW_ERR_OUT_OF_MEMORY || request->is_capturing)", "if (status != VW_ERR_OUT_OF_MEMORY)"),
    ("whole segments of captured streams stay", "paged_whole.c",
     "        if (!vw__engine_is_capturing(&engine->base, lane->stream))\n", ""),
    ("others get the idle whole segments", "paged_miss.c", "    {NULL, false, release_whole_segments},\n", ""),
    ("listeners hear of the end first", "paged_handles.c",
     "    vw__paged_leave_home(engine, home, block);\n    vw_status status = "
     "vw__driver_unmap(&engine->base.owner, home->address, handle->size_bytes);\n",
     "    vw_status status = vw__driver_unmap(&engine->base.owner, home->address, handle->size_bytes);\n"
     "    vw__paged_leave_home(engine, home, block);\n"),
    ("pins nest", "paged_pins.c", "    if (--pin->count != 0)\n        return VW_OK;", ""),
    # windows
    ("a window does not take its own memory", "paged_fill.c",
     "!vw__paged_is_free(engine, handle) ||\n            vw__paged_is_inside(engine, window, handle->home))",
     "!vw__paged_is_free(engine, handle))"),
    ("ghosts of memory in use are not revived", "paged_fill.c",
     "        if (vw__paged_is_free(engine, ghost->handle))\n            continue;", "        continue;"),
    ("ghosts in the way wait for their mark", "paged_survey.c",
     "ghost != ghost->handle->home && ghost->mark->is_complete;", "ghost != ghost->handle->home;"),
    ("a handle's own home is no ghost", "paged_survey.c",
     "ghost != ghost->handle->home && ghost->mark->is_complete;", "ghost->mark->is_complete;"),
    ("a ghost and its home are not both in a window", "paged_survey.c",
     "    if (vw__paged_is_inside(engine, window, handle->home))\n        return true;", ""),
    ("ghosts are revived", "paged_fill.c", "    VW__TRY(revive_ghosts(request, window, &block));", ""),
    # growth
    ("growth ends at its limit", "paged_fill.c",
     "                        request->allowed_bytes, got_bytes));",
     "                        UINT64_MAX, got_bytes));"),
    ("the floor is under the growth limit", "paged_miss.c",
     "vw__max_u64(idle_bytes, engine->idle_floor_bytes)", "idle_bytes"),
    ("the share is of the peak", "paged_miss.c",
     "(uint64_t)(engine->idle_share * (double)engine->peak_live_bytes);", "0;"),
    ("a failed request is no peak", "paged_miss.c",
     "        engine->peak_live_bytes = peak_bytes;", ";"),
    ("beyond the limit only if nothing can be moved", "paged_fill.c",
     "    if (*got_bytes == 0 && !is_slow)\n        VW__TRY(move", "    if (*got_bytes == 1 && !is_slow)\n        VW__TRY(move"),
    ("the pool's limit is kept", "paged_fill.c",
     "        if (held_bytes + wanted_bytes > room_bytes)\n            return VW_OK;", ""),
    ("handles are bounded by what may be idle", "paged_fill.c",
     "    PARTS_OF_THE_IDLE = 2,", "    PARTS_OF_THE_IDLE = 1,"),
    ("where the device refuses, less is asked for", "paged_fill.c",
     "request->most_bytes = held_bytes + wanted_bytes - engine->unit_bytes;",
     "request->most_bytes = held_bytes;"),
    ("a request that memory would do for is not given up", "paged_miss.c",
     "    if (!has_enough(request))", "    if (request != NULL)"),
    ("pending memory is waited for", "paged_miss.c",
     "    VW__TRY(owner->finish_pending(owner->context, NULL));\n", ""),
    # the books
    ("candidates keep sight of their block", "paged_books.c",
     "    merged->node.left = (vw__tree_node *)(void *)engine->retired;\n    engine->retired = merged;",
     "    vw__block_give_back(&engine->base.records, merged);"),
    ("a failed map is undone", "paged_handles.c",
     "if (status == VW_OK || vw__driver_unmap(&engine->base.owner, address, size_bytes) == VW_OK)",
     "if (status == VW_OK || address != 0)"),
    ("a move leaves its old home", "paged_books.c",
     "    vw__engine_count_held(&engine->base, lane->shelf, -(int64_t)size_bytes);", ""),
    ("a trim drops ghosts", "paged_reclaim.c",
     "            VW__TRY(vw__paged_drop_ghost(trim->engine, ghost, true));", "            continue;"),
    ("a trim ends empty arenas", "paged_reclaim.c",
     "    return end_empty_arenas(engine);\n", "    return VW_OK;\n"),
    # live memory that leaves the device
    ("pinned memory does not leave", "paged_moment.c",
     "if (!place->is_guest && handle->pin_count == 0 && handle->on_host == NULL)",
     "if (!place->is_guest && handle->on_host == NULL)"),
    ("what has left does not leave again", "paged_moment.c",
     "if (!place->is_guest && handle->pin_count == 0 && handle->on_host == NULL)",
     "if (!place->is_guest && handle->pin_count == 0)"),
    ("the data goes along", "paged_on_host.c",
     "    vw_status status = vw__paged_copy_live(engine, handle, first, on_host->window, stream);",
     "    vw_status status = VW_OK;"),
    ("the data comes back", "paged_on_host.c",
     "        status = vw__paged_copy_back(engine, handle, first, on_host->window, stream);", ";"),
    ("what belongs to the step comes back within it", "paged_engine.c",
     "    vw__paged_look_for_room(engine);\n", ""),
    ("coming back within the step too early is not repeated", "paged_return.c",
     "    if (engine->clock - spill->returned_at < soon(&spill->clock, engine->clock))\n        wait_longer(spill);\n", ";\n"),
    ("how soon is too early goes by the step", "paged_return.c", "    if (clock->mark_count < 2)\n",
     "    if (now >= 0)\n"),
    ("patience is forgotten", "paged_return.c", "        spill->early_patience = 0; /*",
     "        ; /*"),
    ("nor is what was in vain", "paged_return.c",
     "        spill->left_at = engine->clock;\n        wait_longer(spill);\n", ";\n"),
    ("what is freed before it comes back costs no moment", "paged_return.c",
     "    return spill->early_bytes != 0 && is_enough", "    return is_enough"),
    ("room that others took meanwhile is theirs", "paged_return.c",
     "    if (is_early) /* others had the lock */\n        room_bytes = early_room_bytes(engine);",
     "    if (is_early)\n        room_bytes = engine->spill->full_bytes;"),
    ("nothing leaves where all would not be enough", "paged_spill.c",
     "    if (status == VW_OK && is_enough(engine, &found, bytes))", "    if (status == VW_OK)"),
    ("who leaves is chosen", "paged_spill_list.c",
     "        qsort(found->items, found->count, sizeof *found->items, vw__paged_spill_compare);", ";"),
    ("the highest moment of a step counts", "paged_on_host.c",
     "vw__paged_live_bytes(engine) + block->size_bytes);", "0);"),
    ("a return that is regretted makes the next later", "paged_return.c",
     "        spill->patience *= 2;", ";"),
    ("what is left on the host waits for its stream", "paged_on_host.c",
     "    if (!is_complete && !can_wait)\n        return VW_ERR_NOT_READY;", ""),
    ("what comes free on the host serves nobody", "paged_engine.c",
     "    if (!vw__paged_free_on_host(engine, block))\n", ""),
    # parking
    ("parked: a graph's free bytes are kept", "paged_park_tape.c",
     "(block->state == VW__BLOCK_FREE && is_graphs)", "(block->state == VW__BLOCK_FREE && false && is_graphs)"),
    ("parked: bytes that guests use are kept", "paged_park_tape.c",
     "block->state == VW__BLOCK_SHADOW ||", "(block->state == VW__BLOCK_SHADOW && false) ||"),
    ("parked: a span that lost its beginning is read from behind that", "paged_park_tape.c",
     "each->offset + (low - each->address)", "each->offset"),
    ("parked: short gaps are copied with what is around them", "paged_park_tape.c",
     "        to = high;\n        *cursor = block;", "        to = low - to > GAP_BYTES ? high : to;\n        *cursor = block;"),
    ("parked: requests for a region are refused", "paged_park.c",
     "pool != NULL && pool->is_parked ? refuse(pool) : VW_OK", "pool != NULL && pool->is_parked ? VW_OK : VW_OK"),
    ("parked: a region's pool counts as in use", "paged_survey.c",
     "kind <= VW__ENGINE_LARGE && !vw__private_is_in_use(pool);", "kind <= VW__ENGINE_LARGE && pool->use_count == 0;"),
    ("parked: memory ends with its parking", "paged_handles.c", "    if (handle->parking != NULL)", "    if (handle == NULL)"),
    ("parked: what is not parked is forgotten", "paged_park.c",
     "            parking->items[i].handle = NULL;", "            (void)parking;"),
    ("parked: pinned memory stays", "paged_park.c", "        if (handle->pin_count != 0)", "        if (handle == NULL)"),
    ("parked: what was freed does not come back", "paged_park.c",
     "    return block->state == VW__BLOCK_FREE && handle->guest_count == 0 &&",
     "    return block->state == VW__BLOCK_LIVE && handle->guest_count == 0 &&"),
    ("parked: launches are let go", "paged_park.c",
     "        engine->base.owner.let_launches_go(engine->base.owner.context);", ";"),
    ("parked: a region without data is not copied", "paged_park_region.c",
     "        is_dropped ? VW_OK : copy(", "        !is_dropped ? VW_OK : copy("),
    ("parked: what was written to a region meanwhile comes back", "paged_park_region.c",
     "    if (parking->scratch == NULL) {", "    if (parking->scratch != NULL) {"),
    ("parked: idle memory makes room for a region", "paged_park.c",
     "    if (status == VW_ERR_OUT_OF_MEMORY && !engine->is_parked) {", "    if (status == VW_OK && engine->is_parked) {"),
]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--source", required=True, type=pathlib.Path)
    parser.add_argument("--test", required=True, action="append", help="NAME=OBJECT")
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


def compile_changed(options, mutant, folder):
    _, name, before, after = mutant
    text = (options.source / FOLDER / name).read_text(encoding="utf-8")
    if text.count(before) != 1:
        raise Failure(f"the text to change occurs {text.count(before)} times in {name}")
    changed = folder / name
    changed.write_text(text.replace(before, after), encoding="utf-8")
    run([options.compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-w",
         "-I", str(options.source / "include"), "-I", str(options.source / "src"),
         "-c", str(changed), "-o", str(folder / "changed.o")], "it does not compile")
    return [str(folder / "changed.o")]


def first_to_fail(options, objects, folder):
    """The name of the first test that fails, and how; or None."""
    for test in options.test:
        name, _, test_object = test.partition("=")
        program = folder / name
        run([options.compiler, *objects, test_object, *options.library, "-lcmocka", "-ljansson", "-lz",
             "-llzma", "-lzstd", "-lpthread", "-ldl", "-lm", "-o", str(program)], "it does not link")
        try:
            done = subprocess.run([program], capture_output=True, text=True, timeout=30)
        except subprocess.TimeoutExpired:
            return f"{name} does not end"
        if done.returncode < 0:
            return f"{name} dies of signal {-done.returncode}"
        if done.returncode > 0:
            failed = [line for line in done.stderr.splitlines() if "FAILED  ]" in line and "test(s)" not in line]
            return f"{name}: {failed[0].partition(']')[2].strip() if failed else 'fails'}"
    return None


def try_mutant(options, mutant):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            noticed = first_to_fail(options, compile_changed(options, mutant, folder), folder)
        except Failure as failure:
            return str(failure), None
    return (None, noticed) if noticed else ("no test noticed", None)


def main():
    os.environ["VRAMWISE_LIVE"] = "0"  # the tests are linked without what says so in theirs
    options = parse_arguments()
    chosen = [m for m in MUTANTS if not options.names or any(n in m[0] for n in options.names)]
    with tempfile.TemporaryDirectory() as name:
        failing = first_to_fail(options, [], pathlib.Path(name))
        if failing:
            sys.exit(f"the engine as it is fails already: {failing}")
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
