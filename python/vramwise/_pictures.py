"""_pictures.py - results as compact HTML, for notebooks.

Plain elements with inline styles: no script, no style sheet, nothing from elsewhere, so that a
notebook shows them trusted or not, exported or mailed. Colours are readable on light and dark ground,
and the text has the notebook's own. Everything from outside is escaped.
"""
from __future__ import annotations

import os.path
from html import escape
from typing import TYPE_CHECKING, Any, Iterable, List, Mapping, Optional, Sequence, Tuple

from . import _library

if TYPE_CHECKING:
    from . import _diagnosis, _jobs, _results

_MOST_ROWS = 8
_GOOD, _BAD, _NEUTRAL = "#2f9e5f", "#d1495b", "#8a8f98"
_LIVE, _IDLE, _OTHERS, _FREE = "#3f7fd0", "#9fc1ea", "#b7a2d6", "rgba(128,128,128,.16)"
_PALETTE = ("#3f7fd0", "#e0913a", "#2f9e5f", "#a36ac7", "#d1495b", "#3aa6a6", "#c2a52e", "#8a8f98",
            "#d67fb0", "#6b7fa8")
_VERDICT_COLOURS = {"healthy": _GOOD, "not-oom": _NEUTRAL, "unknown": _NEUTRAL}

Part = Tuple[str, int, str]  # what it is, bytes, colour


# ---- the pieces --------------------------------------------------------------------------------------


def size(count: Optional[float]) -> str:
    """A number of bytes for people, with a sign where it is negative."""
    if count is None:
        return "?"
    return ("-" if count < 0 else "") + _library.size_text(int(abs(count)))


def _change(count: int) -> str:
    return ("+" if count > 0 else "") + size(count)


def _range(least: int, most: int) -> str:
    return size(least) if least == most else f"{size(least)} to {size(most)}"


def _box(*pieces: str) -> str:
    return ('<div style="font:13px/1.45 system-ui,sans-serif;max-width:54em;padding:.3em 0">'
            + "".join(pieces) + "</div>")


def _head(word: str, colour: str, text: str) -> str:
    return (f'<div style="margin-bottom:.45em"><span style="background:{colour};color:#fff;'
            f'border-radius:3px;padding:.05em .5em;font-weight:600">{escape(word)}</span> '
            f'{escape(text)}</div>')


def _note(text: str) -> str:
    return f'<div style="opacity:.75;margin-top:.3em">{escape(text)}</div>'


def _code(text: str) -> str:
    return (f'<code style="display:block;white-space:pre-wrap;overflow-wrap:anywhere;'
            f'margin:.15em 0 .15em 1em">{escape(text)}</code>')


def _share(part: float, whole: float) -> str:
    return f"{100 * min(max(part / whole, 0), 1):.2f}%" if whole > 0 else "0%"


def _bar(parts: Sequence[Part], whole: float, mark: Optional[float] = None) -> str:
    """Bytes side by side, on a line of `whole`; the mark is a limit."""
    pieces = "".join(
        f'<div title="{escape(name)}: {size(count)}" style="width:{_share(count, whole)};'
        f'background:{colour};height:100%"></div>' for name, count, colour in parts if count > 0)
    line = "" if mark is None else (
        f'<div title="{size(mark)}" style="position:absolute;top:-2px;bottom:-2px;width:2px;'
        f'left:calc({_share(mark, whole)} - 1px);background:currentColor"></div>')
    return (f'<div style="position:relative;height:14px;background:{_FREE};border-radius:2px">'
            f'<div style="display:flex;height:100%;overflow:hidden;border-radius:2px">{pieces}</div>'
            f'{line}</div>')


def _key(*colours: Tuple[str, str]) -> str:
    """What each colour is."""
    words = "".join(
        f'<span style="white-space:nowrap;margin-right:1em"><span style="display:inline-block;'
        f'width:.7em;height:.7em;border-radius:2px;background:{colour}"></span> {escape(name)}</span>'
        for name, colour in colours)
    return f'<div style="margin:.25em 0 .4em">{words}</div>'


def _legend(parts: Sequence[Part]) -> str:
    return _key(*((f"{name} {size(count)}", colour) for name, count, colour in parts if count > 0))


_CELL = "text-align:left;padding:.12em .8em .12em 0;border:0;background:none;vertical-align:middle;"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], bar: Tuple[int, int] = (-1, 0)
           ) -> str:
    """Cells are HTML already. `bar`: which column has one, and its percents of the width."""
    def cell(tag: str, place: int, content: str) -> str:
        width = f"width:{bar[1]}%;" if place == bar[0] else ""
        return f'<{tag} style="{_CELL}{width}">{content}</{tag}>'

    head = "".join(cell("th", place, escape(name)) for place, name in enumerate(heads))
    body = "".join("<tr style=\"background:none\">"
                   + "".join(cell("td", place, content) for place, content in enumerate(row))
                   + "</tr>" for row in rows)
    return (f'<table style="border-collapse:collapse;border:0;table-layout:auto;width:100%;margin:.2em 0;font:inherit">'
            f'<tr style="background:none">{head}</tr>{body}</table>')


def _wrap(text: Optional[str]) -> str:
    """Text that may be broken: behind commas and slashes, or anywhere if need be."""
    words = escape(text or "").replace(",", ",<wbr>").replace("/", "/<wbr>")
    return f'<span style="overflow-wrap:anywhere">{words}</span>'


def _whole(text: str) -> str:
    """Text that stays on one line."""
    return f'<span style="white-space:nowrap">{text}</span>'


def _more(count: int) -> str:
    return _note(f"and {count} more") if count > 0 else ""


def _coloured(named: Mapping[str, int]) -> List[Part]:
    """Largest first, each with a colour."""
    ordered = sorted(named.items(), key=lambda item: -item[1])
    return [(name, count, _PALETTE[place % len(_PALETTE)])
            for place, (name, count) in enumerate(ordered)]


# ---- a recording -------------------------------------------------------------------------------------


def of_stats(stats: "_results.Stats") -> str:
    """What was live at the peak of each device, by category and line."""
    pieces = [_head("recording", _NEUTRAL, stats.file or "in memory")]
    for device in stats.devices:
        name = "pinned host memory" if device.device < 0 else f"device {device.device}"
        peak = device.peak
        if peak is None:
            pieces.append(_note(f"{name}: {device.events:,} events, no peak"))
            continue
        reserved = device.peak_reserved_bytes or peak.live_bytes
        parts = _coloured({each.category: each.bytes for each in peak.categories})
        pieces += [f"<div>{escape(name)}: {device.events:,} events, {device.steps} steps; at the peak "
                   f"{size(peak.live_bytes)} live, {size(device.peak_reserved_bytes)} reserved at "
                   "most</div>", _bar(parts, reserved), _legend(parts)]
        pieces.append(_usages(peak.usages))
    return _box(*pieces, *(_note(text) for text in stats.warnings))


def _place(usage: "_results.Usage") -> str:
    """The line of the program, and the innermost one where that is another: as in the report."""
    if usage.where is None:
        return "(no Python frame)" if usage.has_stack else "(no stack)"
    if not usage.frames or usage.frames[0] == usage.where:
        return usage.where
    file_and_line, _, _function = usage.frames[0].rpartition(" ")
    return f"{usage.where} > {os.path.basename(file_and_line)}"


def _usages(usages: Sequence["_results.Usage"]) -> str:
    most = max((each.bytes for each in usages), default=0)
    rows = [(_bar([(each.where or each.category, each.bytes, _LIVE)], most), _whole(size(each.bytes)),
             _wrap(_place(each)), escape(each.category)) for each in usages[:_MOST_ROWS]]
    return _table(("", "live", "line", "category"), rows, (0, 25)) + _more(len(usages) - len(rows))


def of_verified(verified: "_results.Verified") -> str:
    """Whether it is exact, and what matched."""
    head = _head("exact" if verified.exact else "differs", _GOOD if verified.exact else _BAD,
                 f"replayed with the rules of PyTorch {verified.torch or '?'}, "
                 f"{verified.events:,} events")
    kinds = (("segments", verified.segment_events), ("placements", verified.placements),
             ("segments at the end", verified.end_segments))
    rows = [(escape(name), _bar([("matched", each.matched, _GOOD)], each.recorded),
             f"{each.matched:,} of {each.recorded:,}") for name, each in kinds]
    first = verified.first_difference
    return _box(head, _table(("", "", "the same"), rows, (1, 38)),
                "" if first is None else _note(f"event {first.event}: expected {first.expected}, got "
                                               f"{first.got}. {first.explanation or ''}"),
                *(_note(text) for text in verified.unverifiable))


def _runs(runs: Sequence["_results.ReplayRun"], card: Optional[int],
          recorded: Optional["_results.ReplayRun"] = None) -> str:
    """Settings, one below the other: live, and what is reserved beyond it. `recorded` is one of them
    and always shown."""
    shown = list(runs[:_MOST_ROWS])
    if recorded is not None and recorded not in shown:
        shown[-1:] = [recorded]
    whole = max([card or 0] + [run.peak_reserved_bytes for run in shown], default=0)
    heads = ["setting", "", "reserved at most"]
    has_smallest = any(run.smallest_card_bytes is not None for run in shown)
    rows = []
    for run in shown:
        live = min(run.peak_live_bytes, run.peak_reserved_bytes)
        parts = [("live", live, _LIVE), ("idle", run.peak_reserved_bytes - live, _IDLE)]
        ratio = "" if run.ratio is None else f" ({run.ratio:.2f} &times; live)"
        result = _whole(size(run.peak_reserved_bytes) + ratio if run.completed else
                        f'<span style="color:{_BAD}">out of memory</span>')
        name = run.conf if run.policy == "conf" else run.policy
        rows.append([_wrap(name or "PyTorch's defaults"), _bar(parts, whole, card), result])
        if has_smallest:
            rows[-1].append(_whole(size(run.smallest_card_bytes)))
    if has_smallest:
        heads.append("smallest card")
    return (_table(heads, rows, (1, 38)) + _more(len(runs) - len(shown))
            + _key(("live", _LIVE), ("idle", _IDLE)))


def of_replayed(replayed: "_results.Replayed") -> str:
    """What each setting reserves."""
    card = next((run.card_bytes for run in replayed.results if run.card_bytes is not None), None)
    where = "with no memory limit" if card is None else f"on {size(card)}"
    return _box(_head("replay", _NEUTRAL, f"{replayed.events:,} events {where}; at most "
                      f"{size(replayed.peak_live_bytes)} live"),
                _runs(replayed.results, card), *(_note(text) for text in replayed.notes))


def of_tuned(tuned: "_results.Tuned") -> str:
    """The best setting, and those that were tried."""
    best = tuned.best
    if tuned.fits and best is not None:
        head = _head("fits", _GOOD, f"{size(best.peak_reserved_bytes)} of {size(tuned.card_bytes)} "
                     "reserved at most")
        opening = str(tuned).partition("\n\n")[0]
        code = _code(opening.rpartition("\n")[2])  # what to set: the last line of the report's opening
    else:
        why = "no setting helps" if tuned.possible else "more is alive than it has"
        head = _head("does not fit", _BAD, f"on {size(tuned.card_bytes)}: {why}; at most "
                     f"{size(tuned.peak_live_bytes)} live")
        code = ""
    return _box(head, code, _runs(tuned.tried, tuned.card_bytes, tuned.recorded),
                *(_note(text) for text in (*tuned.warnings, *tuned.notes)))


def of_diff(diff: "_results.Diff") -> str:
    """The two peaks by category, and the lines that changed."""
    before, after = diff.before, diff.after
    word, colour = ("same", _GOOD) if diff.same else ("differs", _NEUTRAL)
    head = _head(word, colour, f"at the peak {size(before.peak_live_bytes)} before, "
                 f"{size(after.peak_live_bytes)} after")
    order = _coloured({each.category: max(each.before_bytes, each.after_bytes)
                       for each in diff.categories})
    whole = max(before.peak_live_bytes, after.peak_live_bytes)
    sides = []
    for name, side in (("before", "before_bytes"), ("after", "after_bytes")):
        bytes_of = {each.category: each[side] for each in diff.categories}
        parts = [(category, bytes_of[category], each) for category, _, each in order]
        sides.append((escape(name), _bar(parts, whole), size(sum(part[1] for part in parts))))
    rows = [(f'<span style="color:{_BAD if each.after_bytes > each.before_bytes else _GOOD}">'
             f'{_change(each.after_bytes - each.before_bytes)}</span>',
             _wrap(each.where or "(no stack)"), escape(each.category))
            for each in diff.changes[:_MOST_ROWS]]
    changes = _table(("change", "line", "category"), rows) if rows else ""
    return _box(head, _table(("", "", "live at the peak"), sides, (1, 60)), _legend(order), changes,
                _more(diff.change_count - len(rows)), *(_note(text) for text in diff.notes))


def of_checked(checked: "_results.Checked") -> str:
    """The figures beside their baseline."""
    head = _head("worse" if checked.worse else "no worse", _BAD if checked.worse else _GOOD,
                 f"than {checked.baseline}")

    def percent(part: Optional[float]) -> str:
        return "" if part is None else f"{100 * part:+.1f} %"

    def figure(metric: "_results.Metric", value: Optional[float]) -> str:
        is_count = "allocations" in metric.metric
        return "?" if value is None else f"{int(value):,}" if is_count else size(value)

    rows = [(escape(each.metric), figure(each, each.baseline), figure(each, each.now),
             f'<span style="color:{_BAD if each.worse else "inherit"}">{percent(each.growth)}</span>',
             percent(each.max_growth)) for each in checked.metrics]
    sites = [(size(each.peak_bytes - each.baseline_peak_bytes), _wrap(each.site))
             for each in checked.sites[:_MOST_ROWS]]
    return _box(head, _table(("figure", "baseline", "now", "growth", "allowed"), rows),
                _table(("grew at the peak", "function"), sites) if sites else "",
                *(_note(text) for text in checked.notes))


# ---- a plan ------------------------------------------------------------------------------------------

_PLAN_WORDS = {"fits": ("fits", _GOOD), "barely": ("barely fits", _GOOD),
               "other-allocator": ("fits with another allocator", _GOOD),
               "too-close": ("too close", _BAD), "does-not-fit": ("does not fit", _BAD)}


def _planned(word: str, colour: str, subject: str, parts: Mapping[str, int], card: Optional[int],
             peak_device: int) -> str:
    shown = _coloured(parts)
    return (_head(word, colour, subject)
            + _bar(shown, max(card or 0, peak_device, sum(parts.values())), card) + _legend(shown))


def of_plan(plan: "_results.Plan") -> str:
    """The parts of the peak against the card, and what makes it fit."""
    card = plan.settings.card_bytes
    word, colour = _PLAN_WORDS.get(plan.verdict or "", ("plan", _NEUTRAL))
    on = "" if card is None else f" of {size(card)}"
    rows = [(_wrap(", ".join(each.changes)), _whole(size(each.peak_device_bytes)),
             _whole(f"{each.slowdown:.2f} times")) for each in plan.options[:_MOST_ROWS]]
    return _box(_planned(word, colour, f"{plan.model}, batch {plan.settings.batch}: "
                         f"{size(plan.peak_device_bytes)}{on} at the peak, in {plan.peak_phase}",
                         plan.parts, card, plan.peak_device_bytes),
                _table(("what takes less" if card is None else "what makes it fit", "at the peak",
                        "time of a step"), rows) if rows else "",
                _more(len(plan.options) - len(rows)))


def of_scaled_plan(plan: "_results.ScaledPlan") -> str:
    """The same for a recorded or traced step."""
    word, colour = ("plan", _NEUTRAL) if plan.fits is None else _PLAN_WORDS[
        "fits" if plan.fits else "does-not-fit"]
    on = "" if plan.card_bytes is None else f" of {size(plan.card_bytes)}"
    size_of_step = "" if plan.batch is None else f"batch {plan.batch}: "
    rows = [(_wrap(each.change), f"{_range(each.least_peak_bytes, each.most_peak_bytes)} "
             f"({'fits' if each.fits else 'may fit' if each.may_fit else 'not enough'})",
             _wrap(each.cost)) for each in plan.options[:_MOST_ROWS]]
    return _box(_planned(word, colour, f"{size_of_step}{size(plan.peak_device_bytes)}{on} at the "
                         f"peak, in {plan.peak_phase}",
                         {**plan.parts, "context": plan.context_bytes}, plan.card_bytes,
                         plan.peak_device_bytes),
                _table(("what helps", "peak", "cost"), rows) if rows else "",
                _more(len(plan.options) - len(rows)))


# ---- a diagnosis -------------------------------------------------------------------------------------


def _saves(remedy: "_diagnosis.Remedy") -> str:
    """": saves 1.16 GiB to 1.53 GiB (measured)", in the words of the report; "" where none is known."""
    least, most = remedy.saves_bytes, remedy.saves_at_most_bytes
    basis = "rule of thumb" if remedy.basis == "rule" else remedy.basis
    if not least and not most:
        return "" if least is None and most is None else f": does not lower the peak of this run ({basis})"
    saves = f"at most {size(most)}" if not least else f"at least {size(least)}" if most is None \
        else _range(least, most)
    return f": saves {saves} ({basis})"


def of_diagnosis(found: "_diagnosis.Diagnosis") -> str:
    """The verdict, the card at the failure, and what to do."""
    pieces = [_head(found.verdict, _VERDICT_COLOURS.get(found.verdict, _BAD), found.sentence)]
    numbers = found.numbers
    if numbers.allocated_bytes is not None and numbers.reserved_bytes is not None:
        idle = max(numbers.reserved_bytes - numbers.allocated_bytes, 0)
        parts: List[Part] = [("live", numbers.allocated_bytes, _LIVE), ("idle", idle, _IDLE)]
        whole = numbers.reserved_bytes
        if numbers.total_bytes is not None:
            whole = max(whole, numbers.total_bytes)
            if numbers.free_bytes is not None:
                parts.append(("others", whole - numbers.free_bytes - numbers.reserved_bytes, _OTHERS))
                parts.append(("free", numbers.free_bytes, _FREE))
        pieces += [_bar(parts, whole, numbers.allowed_bytes), _legend(parts)]
        if numbers.tried_bytes is not None:
            pieces.append(_note(f"{size(numbers.tried_bytes)} were asked for"))
    for finding in found.findings[:_MOST_ROWS]:
        pieces.append(f'<div style="margin-top:.4em">{escape(finding.title)}</div>')
        for remedy in finding.remedies[:1]:
            pieces.append(f'<div style="margin-left:1em">{escape(remedy.action + _saves(remedy))}</div>')
            pieces.append(_code(remedy.how) if remedy.how else "")
    return _box(*pieces, _more(len(found.findings) - _MOST_ROWS))


# ---- a cell of a notebook ----------------------------------------------------------------------------


def of_cell(cell: Any) -> str:
    """The peak of a cell, and its lines."""
    parts = [("before", min(cell.before_bytes, cell.peak_bytes), _IDLE),
             ("this cell", max(cell.peak_bytes - cell.before_bytes, 0), _LIVE)]
    peak, on, rest = str(cell).partition("\n")[0].partition(" on ")
    head = _head(peak, _NEUTRAL, on.strip() + " " + rest)
    most = max((line.peak_bytes for line in cell.lines), default=0)
    rows = [(_wrap(line.where), f"<code>{escape(line.code or '')}</code>",
             _bar([("at the peak", line.peak_bytes, _LIVE)], most), _whole(size(line.peak_bytes)),
             _whole(size(line.after_bytes)) if line.after_bytes else "") for line in cell.lines[:_MOST_ROWS]]
    return _box(head, _bar(parts, max(cell.peak_bytes, cell.total_bytes or 0)), _legend(parts),
                _table(("line", "", "", "at the peak", "afterwards"), rows, (2, 25)) if rows else "",
                _more(len(cell.lines) - len(rows)), *(_note(text) for text in cell.notes))


# ---- running jobs ------------------------------------------------------------------------------------


def _held(device: "_jobs.JobDevice") -> str:
    """What a job holds of a GPU, beside what others do."""
    live, reserved, total = device.live_bytes or 0, device.reserved_bytes or 0, device.device_total_bytes
    idle = max(reserved - live, 0)
    parts: List[Part] = [("live", live, _LIVE), ("idle", idle, _IDLE)]
    if total is not None and device.device_free_bytes is not None:
        others = max(total - device.device_free_bytes - live - idle, 0)
        parts += [("others", others, _OTHERS), ("free", device.device_free_bytes, _FREE)]
    return _bar(parts, max(total or 0, live + idle), device.limit_bytes)


def of_jobs(jobs: Sequence["_jobs.Job"]) -> str:
    """Each job's devices, one below the other."""
    from ._jobs import trend_words
    rows = []
    for job in jobs:
        name = escape(job.program or "?") + ("" if job.rank is None else f", rank {job.rank}")
        for device in job.devices:
            trend = f'<span style="color:{_BAD}">{escape(trend_words(device))}</span>'
            rows.append((str(job.process), name, f"GPU {device.index}", _held(device),
                         _whole(f"{size(device.live_bytes)} / {size(device.reserved_bytes)}"), trend))
        if not job.devices:
            rows.append((str(job.process), name, "no GPU yet" if job.state == "running" else
                         escape(job.state), "", "", ""))
    count = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}"
    table = _table(("process", "program", "", "", "live / reserved", ""), rows[:_MOST_ROWS], (3, 30))
    key = _key(("live", _LIVE), ("idle", _IDLE), ("others", _OTHERS), ("free", _FREE))
    return _box(_head(count, _NEUTRAL, "on this machine"), table + key if rows else "",
                _more(len(rows) - _MOST_ROWS))
