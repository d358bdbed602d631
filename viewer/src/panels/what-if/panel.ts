// What would have been reserved under each policy, over the instants that the timeline shows.

import './what-if.css';
import type { App, Panel } from '../../app/panel';
import type { State } from '../../app/state';
import { Plot } from '../../chart/plot';
import type { ChartLevel, ChartSeries, ChartSpec } from '../../chart/spec';
import { columnStarts, highestOfLine, highestOfValues } from '../../chart/thin';
import { eventTicks } from '../../chart/ticks';
import { lineAt, timeAt } from '../../data/live';
import type { Device } from '../../data/model';
import { themeColours } from '../../look/colours';
import { fill, h } from '../../look/h';
import { NEUTRAL } from '../../look/palette';
import { bytes, count, duration } from '../../look/units';
import { makeCardField } from '../card';
import { swatch } from '../parts';
import { fitText, leftOutText, policiesOf, policiesText, type Policy } from './policies';
import { eventNumber, eventText } from '../../data/events';

const TICK_PIXELS = 110;
const EDGES = 90; // of the chart, left and right of the columns

/** "event 1,200 (step 3, 1.20 s)", or the span of a column: "events 1,200 to 1,290". */
export function instantText(device: Device, first: number, last: number): string {
  const time = timeAt(device, first);
  let step = 0;
  while (step < device.stepEnds.length && device.stepEnds[step]! < first) step++;
  const more = [
    device.stepEnds.length > 0 && step < device.stepEnds.length ? `step ${count(step + 1)}` : null,
    time === null ? null : duration(time),
  ].filter((part) => part !== null);
  const words = last > first ? `events ${eventNumber(first)} to ${eventNumber(last)}, the highest of each` : eventText(first);
  return more.length > 0 ? `${words} (${more.join(', ')})` : words;
}

function endText(policy: Policy): string {
  return policy.failedAt === null ? 'to the end' : `out of memory at ${eventText(policy.failedAt)}`;
}

export function makeWhatIf(app: App): Panel {
  const card = makeCardField(app, () => draw(app.store.state));
  const readout = h('p', { class: 'readout', 'aria-live': 'off' });
  const legend = h('ul', { class: 'legend' });
  const fit = h('p', { class: 'fit', role: 'status' });
  const rows = h('tbody');
  const leftOut = h('p', { class: 'left-out' });
  const reset = h('button', { type: 'button', class: 'plain', onclick: () => showAll() }, 'Whole run');
  let spec: ChartSpec | null = null, numbers: HTMLElement[] = [], policies: Policy[] = [], made: Device | null = null;

  const showAll = (): void => app.store.set({ from: 0, to: app.device().lastInstant });
  const plot = new Plot('Reserved memory over the run, by policy. Arrow keys move the cursor, plus and minus zoom.', {
    hover: (index) => read(index),
    pick: (x) => app.store.set({ cursor: Math.max(0, Math.min(app.device().lastInstant, Math.floor(x))) }),
    zoom: (from, to) => {
      const last = app.device().lastInstant, first = Math.max(0, Math.floor(from));
      app.store.set({ from: Math.min(first, Math.max(0, last - 1)), to: Math.max(first + 1, Math.min(last, Math.ceil(to))) });
    },
    reset: showAll,
  });
  const element = h(
    'section',
    { class: 'report what-if' },
    h('div', { class: 'controls' }, h('h2', {}, 'Reserved memory under other policies'), card.element, reset),
    plot.element,
    readout,
    legend,
    fit,
    h(
      'div',
      { class: 'wide' },
      h(
        'table',
        {},
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('th', { scope: 'col' }, 'policy'),
            ...['peak reserved', 'to recorded', 'ratio to live', 'retries', 'device time'].map((title) => h('th', { scope: 'col', class: 'number' }, title)),
            h('th', { scope: 'col' }, 'ran'),
          ),
        ),
        rows,
      ),
    ),
    leftOut,
    h(
      'p',
      { class: 'note' },
      'Each line is a replay of the recording by the rules of that allocator. Device time is what its calls into the driver cost; a retry gives cached memory back and asks again.',
    ),
  );

  /** Values at the cursor of all tabs, or under the pointer. */
  const read = (index: number | null): void => {
    if (spec === null) return;
    const device = app.device(), { cursor } = app.store.state;
    if (index === null) {
      readout.textContent = `cursor: ${instantText(device, cursor, cursor)}`;
      const values = [app.liveOf(device)[cursor] ?? 0, ...policies.map((one) => (cursor <= one.end ? lineAt(one.line, cursor) : null))];
      values.forEach((value, i) => (numbers[i]!.textContent = value === null ? 'over' : bytes(value)));
      return;
    }
    const first = spec.xs[index]!, last = (spec.xs[index + 1] ?? first + 1) - 1;
    readout.textContent = instantText(device, first, last);
    spec.series.forEach((series, i) => {
      const value = series.values[index];
      numbers[i]!.textContent = value === null || value === undefined ? 'over' : bytes(value);
    });
  };

  const drawTable = (): void => {
    const base = policies.find((policy) => policy.name === 'recorded')?.peak ?? null;
    fill(
      rows,
      ...policies.map((policy) => {
        const difference = base === null || policy.name === 'recorded' ? null : policy.peak - base;
        const cells = [
          bytes(policy.peak),
          difference === null ? '' : difference === 0 ? 'the same' : `${bytes(Math.abs(difference))} ${difference < 0 ? 'less' : 'more'}`,
          policy.ratio === null ? '' : policy.ratio.toFixed(3),
          policy.retries === null ? '' : count(policy.retries),
          policy.deviceUs === null ? '' : duration(policy.deviceUs),
        ];
        return h(
          'tr',
          {},
          h('td', {}, h('span', { class: 'policy' }, swatch(policy.colour, policy.width, policy.dash), policy.name), policy.conf === '' ? null : h('small', { class: 'note' }, ` ${policy.conf}`)),
          ...cells.map((text) => h('td', { class: 'number' }, text)),
          h('td', { class: policy.failedAt === null ? null : 'danger' }, endText(policy)),
        );
      }),
    );
  };

  const drawLegend = ({ series, levels, marks }: ChartSpec): void => {
    numbers = series.map(() => h('span', { class: 'number' }));
    fill(
      legend,
      ...series.map((one, i) => h('li', {}, swatch(one.colour, one.width, one.dash, one.isFilled), one.name, numbers[i])),
      ...levels.map((level) => h('li', {}, swatch(level.colour, 1.5, [2, 2]), level.name)),
      marks.length > 0 && h('li', {}, h('span', { class: 'cross danger', 'aria-hidden': 'true' }, '\u2715'), 'out of memory'),
    );
  };

  const levelsOf = (device: Device): ChartLevel[] => {
    const { danger, text } = themeColours(), typed = card.bytes(), limit = device.header.limit_bytes;
    const out: ChartLevel[] = [];
    if (limit !== null) out.push({ name: device.header.limit_text ?? `limit of the recording: ${bytes(limit)}`, value: limit, colour: danger, isWanted: false });
    if (typed !== null) out.push({ name: `card size: ${bytes(typed)}`, value: typed, colour: text, isWanted: true });
    return out;
  };

  const draw = (state: State): void => {
    const device = app.device();
    if (device !== made) {
      made = device;
      policies = policiesOf(device);
      drawTable();
      leftOut.textContent = leftOutText(device.header.what_if_left_out);
      leftOut.hidden = leftOut.textContent === '';
    }
    const from = Math.max(0, Math.floor(state.from)), to = Math.max(from + 1, Math.ceil(state.to));
    const xs = columnStarts(from, to, plot.width - EDGES);
    const live: ChartSeries = { name: 'live', colour: NEUTRAL, width: 1, dash: [], isFilled: true, values: highestOfValues(app.highestLiveOf(device), xs) };
    const lines = policies.map(({ name, colour, width, dash, line, end }): ChartSeries => ({ name, colour, width, dash, isFilled: false, values: highestOfLine(line, xs, end) }));
    const levels = levelsOf(device);
    spec = {
      xs,
      from,
      to,
      isStepped: true,
      series: [live, ...lines],
      levels,
      marks: policies.flatMap((policy) =>
        policy.failedAt === null ? [] : [{ x: policy.failedAt, y: lineAt(policy.line, policy.failedAt), colour: themeColours().danger }],
      ),
      cursor: state.cursor,
      xTitle: 'events',
      xTicks: eventTicks(from, to, plot.width / TICK_PIXELS),
      xText: eventNumber,
    };
    drawLegend(spec);
    plot.show(spec);
    const typed = card.bytes();
    fit.textContent = typed === null ? '' : fitText(policies, typed);
    reset.disabled = from === 0 && to >= device.lastInstant;
    read(null);
  };

  return {
    element,
    update(state) {
      card.update();
      draw(state);
    },
    picture: () => plot.picture('what-if'),
    table: () => (policies.length === 0 ? null : { name: 'what-if', csv: policiesText(policies) }),
  };
}
