// Two runs side by side: what was live over each of them, and what grew or shrank between their peaks.

import './diff.css';
import type { App, Panel } from '../../app/panel';
import type { State } from '../../app/state';
import { Plot } from '../../chart/plot';
import type { ChartSeries, ChartSpec } from '../../chart/spec';
import { columnStarts, highestOfLine, highestOfValues } from '../../chart/thin';
import { countTicks, eventTicks } from '../../chart/ticks';
import type { Device } from '../../data/model';
import type { DiffReport } from '../../data/header';
import { fill, h } from '../../look/h';
import { makeSegmented } from '../../look/segmented';
import { bytes, count } from '../../look/units';
import { swatch } from '../parts';
import { align, alignmentsOf, type AlignBy } from './align';
import { COLOURS, makeChanges, NAMES } from './table';
import { eventNumber, eventText } from '../../data/events';

const EDGES = 90;

const ALIGN_TITLES: Readonly<Record<AlignBy, string>> = { share: 'share of the run', events: 'events', steps: 'steps' };
const AXIS_TITLES: Readonly<Record<AlignBy, string>> = {
  share: 'share of the run (per cent of its events)',
  events: 'events',
  steps: 'steps; what came after the last is left out',
};

/** The devices that were compared: those the report names, else the busiest. */
function devicesOf(app: App): Device[] {
  const { diff, runs } = app.model;
  return runs.slice(0, 2).map((run, i) => {
    const number = i === 0 ? diff?.before.device : diff?.after.device;
    return run.devices.find((device) => device.header.device === number) ?? run.devices[run.busiest]!;
  });
}

function peaksText(report: DiffReport): string {
  const { before, after } = report, difference = after.peak_live_bytes - before.peak_live_bytes;
  if (report.same) return `No difference: at their peaks both hold ${bytes(before.peak_live_bytes)}, in the same places.`;
  const way = difference === 0 ? 'the same in sum' : `${bytes(Math.abs(difference))} ${difference > 0 ? 'more' : 'less'}`;
  return `At the peak ${bytes(before.peak_live_bytes)} were live before and ${bytes(after.peak_live_bytes)} after: ${way}.`;
}

export function makeDiff(app: App): Panel {
  const devices = devicesOf(app), report = app.model.diff, choices = alignmentsOf(devices);
  let by: AlignBy = choices.includes('steps') ? 'steps' : 'share';
  let from = 0, to = align(by, devices).end;
  let spec: ChartSpec | null = null, numbers: HTMLElement[] = [];
  const changes = report === null ? null : makeChanges(app, report, devices);

  const readout = h('p', { class: 'readout' });
  const legend = h('ul', { class: 'legend' });
  const reset = h('button', { type: 'button', class: 'plain', onclick: () => showAll() }, 'Whole run');
  const alignment = makeSegmented('side by side by', choices.map((value) => ({ value, title: ALIGN_TITLES[value] })), (value) => {
    by = value;
    showAll();
  });
  alignment.set(by);

  const showAll = (): void => {
    [from, to] = [0, align(by, devices).end];
    draw(app.store.state);
  };
  const plot = new Plot('Live and reserved memory of both runs. Arrow keys move the cursor, plus and minus zoom.', {
    hover: (index) => read(index),
    pick: (x) => {
      const { state } = app.store, at = align(by, devices).instantAt(state.run, x);
      if (at !== null && app.device() === devices[state.run]) app.store.set({ cursor: Math.max(0, Math.min(app.device().lastInstant, Math.floor(at))) });
    },
    zoom: (left, right) => {
      const { end, isWhole } = align(by, devices);
      const first = Math.max(0, isWhole ? Math.floor(left) : left), last = Math.min(end, isWhole ? Math.ceil(right) : right);
      if (last > first) [from, to] = [first, last];
      draw(app.store.state);
    },
    reset: showAll,
  });
  const element = h(
    'section',
    { class: 'report diff' },
    h('p', { class: 'peaks' }, report === null ? `The peaks were not compared: ${app.model.diffReason ?? 'no reason is given'}` : peaksText(report)),
    h('div', { class: 'controls' }, h('span', { class: 'note' }, 'Side by side by'), alignment.element, reset),
    plot.element,
    readout,
    legend,
    changes?.element,
    ...(report?.renames ?? []).map(({ before, after }) => h('p', { class: 'note' }, `${before} is now ${after}.`)),
    ...(report?.notes ?? []).map((note) => h('p', { class: 'note' }, note)),
  );

  const placeText = (x: number): string => (by === 'share' ? `${x.toFixed(1)} % of the run` : by === 'events' ? eventText(x) : `step ${count(Math.floor(x) + 1)}`);

  const read = (index: number | null): void => {
    if (spec === null) return;
    readout.textContent = index === null ? 'highest values of what is shown' : placeText(spec.xs[index]!);
    spec.series.forEach((series, i) => {
      const value = index === null ? Math.max(0, ...series.values.map((one) => one ?? 0)) : series.values[index];
      numbers[i]!.textContent = value === null || value === undefined ? 'over' : bytes(value);
    });
  };

  const seriesOf = (xs: readonly number[]): ChartSeries[] => {
    const { instantAt } = align(by, devices);
    const instants = devices.map((_, run) => xs.map((x) => instantAt(run, x)));
    const live = devices.map((device, run): ChartSeries => ({
      name: `live ${NAMES[run]}`,
      colour: COLOURS[run]!,
      width: 2,
      dash: [],
      isFilled: run === 0,
      values: highestOfValues(app.highestLiveOf(device), instants[run]!),
    }));
    const reserved = devices.flatMap((device, run): ChartSeries[] =>
      device.reserved.instant.length === 0
        ? []
        : [{ name: `reserved ${NAMES[run]}`, colour: COLOURS[run]!, width: 1.5, dash: [6, 4], isFilled: false, values: highestOfLine(device.reserved, instants[run]!) }],
    );
    return [...live, ...reserved];
  };

  const drawChart = (state: State): void => {
    const { end, isWhole, placeOf } = align(by, devices), xs = columnStarts(from, to, plot.width - EDGES, isWhole);
    const series = seriesOf(xs), most = plot.width / 110;
    spec = {
      xs,
      from,
      to,
      isStepped: true,
      series,
      levels: [],
      marks: [],
      cursor: app.device() === devices[state.run] ? placeOf(state.run, state.cursor) : null,
      xTitle: AXIS_TITLES[by],
      xTicks: by === 'events' ? eventTicks(from, to, most) : countTicks(from, to, most, to - from > 5 ? 1 : 0.01),
      xText: (x) => (by === 'share' ? `${Number(x.toFixed(2))} %` : by === 'events' ? eventNumber(x) : String(Number(x.toFixed(2)))),
    };
    numbers = series.map(() => h('span', { class: 'number' }));
    fill(legend, ...series.map((one, i) => h('li', {}, swatch(one.colour, one.width, one.dash, one.isFilled), one.name, numbers[i])));
    plot.show(spec);
    reset.disabled = from === 0 && to === end;
    read(null);
  };

  const draw = (state: State): void => {
    drawChart(state);
    changes?.update(state);
  };

  return {
    element,
    update: draw,
    picture: () => plot.picture('diff'),
    table() {
      const csv = changes?.csv() ?? null;
      return csv === null ? null : { name: 'diff', csv };
    },
  };
}
