// The timeline: moving, what is under the pointer, pinning, colours, marks.

import { describe, expect, test } from 'vitest';
import { recording } from './support/places.mjs';
import { report } from './support/program.mjs';
import { frame, snapshot, trace, writeRecording } from './support/snapshot.mjs';
import { drawn, linkOf, pictureOf, ready, visit } from './support/visit.mjs';
import { bytesText, countText, oneLine } from './support/words.mjs';

const MIB = 2 ** 20;
const RUN = recording('oom_fragmented.native');

const canvasOf = (page) => page.locator('#panel-timeline canvas').first();
const tooltip = (page) => page.locator('[role=tooltip]:visible');
const details = (page) => page.getByRole('complementary', { name: 'What is pinned' });

/** The range of events in the address; the whole run where it has none. */
async function rangeOf(page, last) {
  const [from, to] = (linkOf(page).get('view') ?? `0-${last}`).split('-').map(Number);
  return { from, to, span: to - from };
}

async function middleOf(page) {
  const box = await canvasOf(page).boundingBox();
  return { x: box.x + box.width / 2, y: box.y + box.height / 2, width: box.width };
}

describe('moving', () => {
  const last = async () => (await report('stats', RUN)).devices[0].events;

  test('the wheel zooms at the pointer, dragging pans', async () => {
    const { page } = await visit(RUN, { hash: 'tab=timeline' });
    const end = await last(), middle = await middleOf(page);
    await page.mouse.move(middle.x, middle.y);
    for (let i = 0; i < 6; i++) await page.mouse.wheel(0, -120);
    await expect.poll(async () => (await rangeOf(page, end)).span).toBeLessThan(end / 3);
    const zoomed = await rangeOf(page, end);
    expect(zoomed.from).toBeLessThan(end / 2);
    expect(zoomed.to).toBeGreaterThan(end / 2);

    await page.mouse.down();
    await page.mouse.move(middle.x - 200, middle.y, { steps: 4 });
    await page.mouse.up();
    await expect.poll(async () => (await rangeOf(page, end)).from).toBeGreaterThan(zoomed.from + zoomed.span / 10);
    const panned = await rangeOf(page, end);
    expect(Math.abs(panned.span - zoomed.span)).toBeLessThanOrEqual(2);
    await page.reload({ waitUntil: 'commit' });
    await ready(page);
    expect(await rangeOf(page, end)).toEqual(panned);
    await expect.poll(async () => (await page.locator('#panel-timeline [role=status]').allInnerTexts()).join()).toContain(`events ${countText(Math.round(panned.from) - 1)} to`); // the event before the instant

    await page.mouse.move(middle.x, middle.y);
    for (let i = 0; i < 12; i++) await page.mouse.wheel(0, 120);
    await expect.poll(async () => (await rangeOf(page, end)).span).toBe(end);
  });

  test('keys zoom, pan and go to the peak', async () => {
    const { page } = await visit(RUN, { hash: 'tab=timeline' });
    const end = await last();
    for (let i = 0; i < 5; i++) await page.keyboard.press('w');
    await expect.poll(async () => (await rangeOf(page, end)).span).toBeLessThan(end / 4);
    const zoomed = await rangeOf(page, end);
    await page.keyboard.press('d');
    await expect.poll(async () => (await rangeOf(page, end)).from).toBeGreaterThan(zoomed.from);
    await page.keyboard.press('a');
    await page.keyboard.press('s');
    await expect.poll(async () => (await rangeOf(page, end)).span).toBeGreaterThan(zoomed.span);
    await page.keyboard.press('0');
    await expect.poll(async () => (await rangeOf(page, end)).span).toBe(end);
    await page.keyboard.press('p');
    const { peak } = (await report('stats', RUN)).devices[0];
    await expect.poll(async () => (await rangeOf(page, end)).span).toBeLessThan(end);
    const range = await rangeOf(page, end);
    expect(range.from).toBeLessThanOrEqual(peak.event + 1);
    expect(range.to).toBeGreaterThanOrEqual(peak.event);
  });

  test('a mark is where memory ran out, and there the page begins', async () => {
    const { page } = await visit(RUN, { hash: 'tab=timeline' });
    const atOf = () => linkOf(page).get('at'); // none: where the page began
    expect(atOf()).toBeNull();
    await page.keyboard.press('p');
    await expect.poll(atOf).not.toBeNull();
    for (let marks = 0; atOf() !== null; marks++) {
      expect(marks).toBeLessThan(20);
      const before = atOf();
      await page.keyboard.press('n');
      await expect.poll(atOf).not.toBe(before);
    }
    await expect.poll(() => page.locator('.toast').innerText()).toMatch(/700 MiB/);
    const { recorded_oom_event: event } = await report('replay', RUN);
    await expect.poll(async () => (await page.locator('#panel-timeline').innerText()).replaceAll(',', '')).toContain(`event ${event}`);
  });
});

describe('blocks', () => {
  const SIZES = [10, 12, 14];
  const three = () =>
    writeRecording(
      'three.json',
      snapshot([trace({ sizes: SIZES.map((size) => size * MIB), kept: [0, 1, 2], stackOf: (i) => [frame(`take_${i}`, '/job/load.py', 10 + i), frame('main', '/job/main.py', 5)] })]),
    );

  /** What the tooltip says from the bottom upwards, near the right edge, where all are live. */
  async function column(page) {
    const box = await canvasOf(page).boundingBox();
    const said = [];
    for (let up = 10; up < box.height; up += 16) {
      const [x, y] = [box.x + box.width - 60, box.y + box.height - up];
      await page.mouse.move(x, y);
      await drawn(page);
      const text = (await tooltip(page).count()) > 0 ? oneLine(await tooltip(page).innerText()) : '';
      if (text !== '' && said.at(-1)?.text !== text) said.push({ text, x, y });
    }
    return said;
  }

  test('stand in the order in which they began, and say size, place and stack', async () => {
    const { page } = await visit(three());
    const blocks = (await column(page)).filter(({ text }) => text.includes('take_'));
    expect(blocks.map(({ text }) => /take_\d/.exec(text)[0])).toEqual(['take_0', 'take_1', 'take_2']);
    blocks.forEach(({ text }, i) => {
      expect(text).toContain(`${bytesText(SIZES[i] * MIB)} (${countText(SIZES[i] * MIB)} bytes)`);
      expect(text).toContain(`load.py:${10 + i}`);
      expect(text).toContain('main.py:5');
    });
  });

  test('are pinned by a click, with their whole stack, also after a reload', async () => {
    const { page } = await visit(three());
    const before = await pictureOf(page, canvasOf(page));
    const { x, y } = (await column(page)).find(({ text }) => text.includes('take_1'));
    await page.mouse.click(x, y);
    await expect.poll(() => linkOf(page).get('block')).toBe('1');
    await expect.poll(async () => oneLine(await details(page).innerText())).toMatch(/Block 1 .*load\.py:11 take_1.*12\.0 MiB.*main\.py:5 main/);
    expect(await pictureOf(page, canvasOf(page))).not.toBe(before); // what is not of its stack is pale
    await page.reload({ waitUntil: 'commit' });
    await ready(page);
    await expect.poll(() => details(page).innerText()).toContain('Block 1');
    await page.keyboard.press('Escape');
    await expect.poll(() => details(page).count()).toBe(0);
    await expect.poll(() => linkOf(page).get('block')).toBe(null);
  });

  test('are found by a search: the others turn pale', async () => {
    const { page } = await visit(three());
    const before = await pictureOf(page, canvasOf(page));
    await page.getByRole('searchbox').fill('load.py:12');
    await expect.poll(() => linkOf(page).get('q')).toBe('load.py:12');
    expect(await pictureOf(page, canvasOf(page))).not.toBe(before);
    await page.getByRole('searchbox').fill('');
    await expect.poll(() => linkOf(page).get('q')).toBe(null);
    await expect.poll(() => pictureOf(page, canvasOf(page))).toBe(before);
  });
});

test('colours are by stack, category, size, stream or age, and the legend says which', async () => {
  const { page } = await visit(recording('streams.native'), { hash: 'tab=timeline' });
  const seen = new Set([await pictureOf(page, canvasOf(page))]);
  const legends = new Set();
  for (const colour of ['category', 'size', 'stream', 'age']) {
    await page.getByRole('radio', { name: colour, exact: true }).check();
    await expect.poll(() => linkOf(page).get('by')).toBe(colour);
    seen.add(await pictureOf(page, canvasOf(page)));
    legends.add(await page.locator('#panel-timeline').innerText());
  }
  expect(seen.size).toBe(5);
  expect(legends.size).toBe(4);
});

test('a block is pinned by the keyboard alone, and marks are explained beside the picture', async () => {
  const { page } = await visit(RUN, { hash: 'tab=timeline' });
  const numberOf = async () => Number(linkOf(page).get('block') ?? -1);
  await page.keyboard.press('p');
  await page.keyboard.press('Enter');
  await expect.poll(numberOf).toBeGreaterThanOrEqual(0);
  await expect.poll(() => details(page).innerText()).toContain('Size');
  const first = await numberOf();
  await page.keyboard.press('j');
  await expect.poll(numberOf).not.toBe(first);
  await page.keyboard.press('k');
  await expect.poll(numberOf).toBe(first);
  await page.keyboard.press('.');
  await expect.poll(() => linkOf(page).get('at')).not.toBe(null);
  await page.keyboard.press('Escape');
  await expect.poll(numberOf).toBe(-1);
  const marks = page.getByRole('list', { name: 'Marks' });
  expect(oneLine(await marks.innerText())).toMatch(/out of memory a request failed.*retry/);
});
