// What grows from step to step: the bytes of each stack at the ends of steps, how fast they rise, and
// how long a card lasts.

import './leaks.css';
import type { App, Panel } from '../../app/panel';
import type { State } from '../../app/state';
import { Plot } from '../../chart/plot';
import type { ChartSeries, ChartSpec } from '../../chart/spec';
import { columnAt } from '../../chart/thin';
import { countTicks } from '../../chart/ticks';
import type { Device } from '../../data/model';
import { fill, h } from '../../look/h';
import { DISTINCT } from '../../look/palette';
import { bytes, count } from '../../look/units';
import { makeCardField } from '../card';
import { swatch } from '../parts';
import { fullText, growthPerStep, leakRows, type LeakRow } from './rows';
import { makeLeakTable, type LineStyle } from './table';

const CHOSEN_AT_FIRST = 6;
const DASHES: readonly (readonly number[])[] = [[], [7, 4], [2, 3]];
/** The most that was live in the last sampled step. */
function highestOfLastStep(app: App, device: Device): number {
  const { instant } = device.growth, last = instant.length - 1;
  return app.highestLiveOf(device).over(instant[last - 1] ?? 0, instant[last] ?? device.lastInstant);
}

export function makeLeaks(app: App): Panel {
  const card = makeCardField(app, () => draw(app.store.state));
  const said = h('div', { class: 'said', role: 'status' });
  const readout = h('p', { class: 'readout' });
  const legend = h('ul', { class: 'legend' });
  const table = makeLeakTable(app, (stack) => {
    if (!chosen.delete(stack)) chosen.add(stack);
    draw(app.store.state);
  });
  let made: Device | null = null, rows: LeakRow[] = [], chosen = new Set<number>(), spec: ChartSpec | null = null;
  let numbers: HTMLElement[] = [];

  const plot = new Plot('Live bytes of the chosen stacks at the ends of steps. Arrow keys move the cursor.', {
    hover: (index) => read(index),
    pick: (x) => {
      const { step, instant } = app.device().growth;
      app.store.set({ cursor: instant[columnAt(Array.from(step), Math.round(x) - 1)] ?? 0 });
    },
  });
  const element = h(
    'section',
    { class: 'report leaks' },
    h('div', { class: 'controls' }, h('h2', {}, 'Growth from step to step'), card.element),
    said,
    plot.element,
    readout,
    legend,
    table.element,
    h(
      'p',
      { class: 'note' },
      'Which stacks grow, and by how much a step, is the doctor\'s answer. The lines are what each stack holds at the ends of steps.',
    ),
  );

  /** A stack has the colour of its place among the fastest. */
  const styleOf = (row: LeakRow): LineStyle => {
    const place = rows.indexOf(row);
    return { colour: DISTINCT[place % DISTINCT.length]!, dash: DASHES[Math.floor(place / DISTINCT.length) % DASHES.length]! };
  };

  const read = (index: number | null): void => {
    if (spec === null) return;
    const { step } = app.device().growth, at = index ?? step.length - 1;
    readout.textContent = `at the end of step ${count((step[at] ?? 0) + 1)}`;
    spec.series.forEach((series, i) => (numbers[i]!.textContent = bytes(series.values[at] ?? 0)));
  };

  const cardBytes = (device: Device): number | null => card.bytes() ?? device.header.limit_bytes;

  const drawWords = (device: Device): void => {
    const growers = rows.filter((row) => row.doesGrow), perStep = growthPerStep(rows), size = cardBytes(device);
    if (growers.length === 0) {
      fill(
        said,
        h('p', { class: 'good' }, 'Nothing grows: no stack holds more and more from step to step.'),
        h('p', { class: 'note' }, `${count(rows.length)} ${rows.length === 1 ? 'stack holds' : 'stacks hold'} more at the last step than at the first: warm-up, a cache, or a longer batch.`),
      );
      return;
    }
    const highest = highestOfLastStep(app, device), until = fullText(size, highest, perStep, count);
    const who = growers.length === 1 ? 'One stack grows' : `${count(growers.length)} stacks grow`;
    fill(
      said,
      h('p', { class: 'danger' }, `${who}, by ${bytes(Math.round(perStep))} a step together.`),
      h(
        'p',
        { class: 'note' },
        size === null
          ? `The last sampled step had at most ${bytes(highest)} live. Type the size of a card to see how long it lasts.`
          : `The last sampled step had at most ${bytes(highest)} live: ${bytes(size)} (${card.bytes() === null ? 'the limit of the recording' : 'the card'}) are full ${until}.`,
      ),
    );
  };

  const drawChart = (state: State, device: Device): void => {
    const { step } = device.growth;
    const shown = rows.filter((row) => chosen.has(row.stack) || row.stack === state.stack);
    // People count steps from one, as the doctor does.
    const steps = Array.from(step, (number) => number + 1), from = steps[0] ?? 0, to = Math.max(from + 1, steps[steps.length - 1] ?? 0);
    const series = shown.map((row): ChartSeries => ({
      name: row.label,
      ...styleOf(row),
      width: row.stack === state.stack ? 3.5 : 2,
      isFilled: false,
      values: Array.from(row.values),
    }));
    const before = device.growth.instant.findIndex((instant) => instant >= state.cursor);
    spec = {
      xs: steps,
      from,
      to,
      isStepped: false,
      series,
      levels: [],
      marks: [],
      cursor: before < 0 ? null : steps[before]!,
      xTitle: 'steps',
      xTicks: countTicks(from, to, plot.width / 80),
      xText: count,
    };
    numbers = series.map(() => h('span', { class: 'number' }));
    fill(legend, ...series.map((one, i) => h('li', {}, swatch(one.colour, one.width, one.dash), h('span', { class: 'name' }, one.name), numbers[i])));
    plot.show(spec);
    read(null);
  };

  const draw = (state: State): void => {
    const device = app.device();
    if (device !== made) {
      made = device;
      rows = leakRows(device, app.run().stacks);
      const growers = rows.filter((row) => row.doesGrow);
      chosen = new Set((growers.length > 0 ? growers : rows).slice(0, CHOSEN_AT_FIRST).map((row) => row.stack));
    }
    drawWords(device);
    drawChart(state, device);
    table.update(state, { rows, chosen, styleOf, card: cardBytes(device), highest: highestOfLastStep(app, device) });
  };

  return {
    element,
    update(state) {
      card.update();
      draw(state);
    },
    picture: () => plot.picture('leaks'),
    table() {
      const csv = table.csv();
      return csv === null ? null : { name: 'leaks', csv };
    },
  };
}
