// The doctor's verdict above the tabs, with the numbers of `vramwise stats` and the findings, each a
// link to where the pictures show it.

import './verdict.css';
import type { Finding, StatsDevice } from '../data/header';
import type { Device, Run } from '../data/model';
import { findingName, toneOf } from '../data/verdicts';
import { fill, h } from '../look/h';
import { bytes, count } from '../look/units';
import { toDevice } from './defaults';
import { shortNames } from './names';
import type { App } from './panel';
import { doctorDevice, findingId, targetOf } from './places';
import type { State } from './state';

export interface VerdictStrip {
  readonly element: HTMLElement;
  update(state: State): void;
}

/** A few words for a chip: "fragmentation 2.73 GiB, train.py:172"; of a warning what it warns of. */
export function chipOf(finding: Finding, verdict: string, hasFailed = false): { name: string; rest: string } {
  if (finding.kind === 'warning') return { name: 'warning', rest: /^[^\s,.;]+/.exec(finding.title)?.[0].slice(0, 40) ?? '' };
  const place = /([^/\\]+:\d+) /.exec(`${finding.where[0] ?? ''} `)?.[1];
  const size = finding.bytes === null ? null : bytes(finding.bytes);
  // The peak of a run that failed is what was live then: the strip has the peak of live memory beside it.
  const name = finding.kind === 'peak' && hasFailed ? 'live at the failure' : findingName(finding.kind, verdict);
  return { name, rest: [size, place].filter((part) => part !== null && part !== undefined).join(', ') };
}

export function statsOf(run: Run, device: Device): StatsDevice | null {
  return run.stats.devices.find((one) => one.device === device.header.device) ?? null;
}

/** What `vramwise stats` says of a device; what is not known is left out. */
export function keyNumbers(run: Run, device: Device): [name: string, value: string][] {
  const stats = statsOf(run, device);
  const live = stats?.peak?.live_bytes ?? device.header.peak_live_bytes;
  const reserved = stats === null ? device.header.peak_reserved_bytes : stats.peak_reserved_bytes;
  const out: [string, string][] = [['peak live', bytes(live)]];
  if (reserved !== null) out.push(['peak reserved', bytes(reserved)]);
  if (reserved !== null && live > 0) out.push(['ratio', (reserved / live).toFixed(2)]);
  out.push(['events', count(stats?.events ?? device.header.event_count)]);
  const steps = stats?.steps ?? device.stepEnds.length;
  if (steps > 0) out.push(['steps', count(steps)]);
  return out;
}

/** Where the pictures need the height more. */
function isNarrow(): boolean {
  return typeof window.matchMedia === 'function' && window.matchMedia('(max-width: 700px)').matches;
}

export function makeVerdictStrip(app: App): VerdictStrip {
  const element = h('section', { class: 'verdict', 'aria-label': 'the verdict' });
  let isFolded = isNarrow(), shown = '';

  const wordOf = (run: Run): HTMLElement => {
    const verdict = run.doctor?.verdict ?? 'no verdict';
    return h('span', { class: `word ${run.doctor === null ? 'warn' : toneOf(verdict)}` }, verdict);
  };
  const sentenceOf = (run: Run): HTMLElement =>
    h('p', { class: 'sentence' }, run.doctor?.sentence ?? run.doctorReason ?? 'The doctor was not asked.');
  const names = shortNames(app.model.runs.map((run) => run.file));
  const fileOf = (run: Run): HTMLElement | null => {
    const index = app.model.runs.indexOf(run);
    return names.length > 1 ? h('span', { class: 'file', title: run.file }, `${'AB'[index] ?? ''}: `, h('span', { class: 'name' }, names[index] ?? '')) : null;
  };

  const said = (run: Run): HTMLElement =>
    h(
      'div',
      { class: 'said' },
      wordOf(run),
      fileOf(run),
      sentenceOf(run),
      run.doctor === null ? null : h('span', { class: 'confidence' }, `confidence: ${run.doctor.confidence}`),
      h(
        'button',
        {
          type: 'button',
          class: 'fold',
          'aria-expanded': String(!isFolded),
          title: isFolded ? 'show numbers and findings' : 'hide numbers and findings',
          onclick: () => {
            isFolded = !isFolded;
            draw(app.store.state);
            element.querySelector<HTMLElement>('.fold')?.focus();
          },
        },
        isFolded ? '▸ more' : '▾ less',
      ),
    );

  const otherRun = (run: Run, index: number): HTMLElement =>
    h(
      'button',
      {
        type: 'button',
        class: 'said other',
        title: 'look at this recording',
        onclick: () => app.store.set(toDevice(app.model, app.store.state, index, doctorDevice(run))),
      },
      wordOf(run),
      fileOf(run),
      sentenceOf(run),
    );

  const chip = (finding: Finding, index: number, verdict: string, hasFailed: boolean): HTMLElement => {
    const { name, rest } = chipOf(finding, verdict, hasFailed);
    const go = (): void => {
      const target = targetOf(app.model, app.store.state, app.store.state.run, finding);
      app.store.set(target);
      // The tab is there when the next frame is drawn; the focus brings the finding into view.
      if (target.tab === 'findings') requestAnimationFrame(() => document.getElementById(findingId(index))?.focus());
    };
    return h('button', { type: 'button', class: 'chip', title: finding.title, onclick: go }, h('b', {}, name), rest === '' ? '' : ` ${rest}`);
  };

  const below = (run: Run, device: Device | undefined): HTMLElement => {
    const numbers = device === undefined ? [] : keyNumbers(run, device);
    const hasFailed = (run.doctor?.numbers.tried_bytes ?? null) !== null;
    return h(
      'div',
      { class: 'below' },
      h('dl', { class: 'numbers' }, ...numbers.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value)))),
      run.doctor === null || run.doctor.findings.length === 0
        ? null
        : h('div', { class: 'chips', role: 'group', 'aria-label': 'findings' }, ...run.doctor.findings.map((finding, index) => chip(finding, index, run.doctor!.verdict, hasFailed))),
    );
  };

  const draw = (state: State): void => {
    const run = app.run();
    fill(element, said(run), ...(isFolded ? [] : [below(run, run.devices[state.device])]));
    app.model.runs.forEach((other, index) => {
      if (index !== state.run) element.append(otherRun(other, index));
    });
  };

  return {
    element,
    update(state) {
      const key = `${state.run} ${state.device}`;
      if (key === shown) return;
      shown = key;
      draw(state);
    },
  };
}
