// Recordings that have little in them, pages that were damaged, browsers that are too old.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { PAGES, recording } from './support/places.mjs';
import { addressOf, pageOf, report } from './support/program.mjs';
import { frame, snapshot, trace, writeRecording } from './support/snapshot.mjs';
import { show, visit, visitAddress } from './support/visit.mjs';
import { bytesText } from './support/words.mjs';

const MIB = 2 ** 20;
const TABS = ['Timeline', 'Segments', 'Table', 'Flame graph', 'What-if', 'Leaks', 'Diff', 'Findings'];

async function expectEveryTab(page) {
  for (const name of TABS) {
    const panel = await show(page, name);
    await expect.poll(async () => (await panel.innerText()).trim()).not.toBe('');
    expect(await panel.innerText()).not.toMatch(/could not be drawn|\bNaN\b|undefined|Infinity/);
  }
}

describe('recordings', () => {
  test('without a trace show what was held at the end, and say what is missing', async () => {
    const state = { ...snapshot([trace({ sizes: [10 * MIB, 12 * MIB], kept: [1] })]), device_traces: [[]] };
    const { page } = await visit(writeRecording('state.json', state));
    await expect.poll(() => page.getByRole('tab', { selected: true }).innerText()).toBe('Segments');
    await expectEveryTab(page);
    expect(await (await show(page, 'Timeline')).innerText()).toMatch(/no (trace|history|events)|without/i);
  });

  test('with nothing in them say so', async () => {
    const { page } = await visit(writeRecording('nothing.json', snapshot([])), { isStarted: false });
    await expect.poll(() => page.getByRole('alert').innerText()).toContain('nothing in this recording');
    expect(await page.getByRole('alert').innerText()).toContain('nothing.json');
  });

  test('with a single event are drawn', async () => {
    const { page } = await visit(recording('shapes/state_only.shapes'));
    await expectEveryTab(page);
  });

  test('of two devices show the one chosen', async () => {
    const stackOf = () => [frame('train', 'train.py', 7)];
    const busy = trace({ sizes: [10 * MIB, 12 * MIB, 14 * MIB], kept: [1], stackOf });
    const calm = trace({ sizes: [16 * MIB], stackOf });
    const path = writeRecording('two.json', snapshot([calm, busy]));
    const { page } = await visit(path);
    const stats = await report('stats', path);
    const devices = page.getByLabel(/^Device/);
    const shown = () => devices.locator('option:checked').innerText();
    await expect.poll(shown).toBe(`GPU 1, peak ${bytesText(stats.devices[1].peak.live_bytes)}`);
    await expectEveryTab(page);
    await page.keyboard.press(']');
    await expect.poll(shown).toBe(`GPU 0, peak ${bytesText(stats.devices[0].peak.live_bytes)}`);
    await expectEveryTab(page);
  });
});

const DATA = /(<script type="text\/plain" id="vramwise-data">)([^<]*)(<\/script>)/;

/** The page with other data in it: `damage` is given what is there. */
async function visitDamaged(name, damage) {
  const page = readFileSync(await pageOf(recording('graphs.native')), 'utf8');
  expect(page).toMatch(DATA);
  const path = join(PAGES, `damaged-${name}.html`);
  writeFileSync(path, page.replace(DATA, (_, begin, data, end) => begin + damage(data) + end));
  return visitAddress(addressOf(path), { isStarted: false, mayComplain: true });
}

function changeBytes(data, change) {
  const bytes = Buffer.from(data, 'base64');
  change(bytes);
  return bytes.toString('base64');
}

describe('a damaged page says that it is', () => {
  test.each([
    ['cut', (data) => data.slice(0, data.length >> 1)],
    ['not-base64', (data) => `${data.slice(0, 1000)}*${data.slice(1001)}`],
    ['other-magic', (data) => changeBytes(data, (bytes) => bytes.writeUInt8(0x58, 0))],
    ['long-header', (data) => changeBytes(data, (bytes) => bytes.writeUInt32LE(0x7fffffff, 8))],
    ['header', (data) => changeBytes(data, (bytes) => bytes.write('}{', 18))],
    ['column', (data) => changeBytes(data, (bytes) => bytes.fill(0x55, bytes.length - 400))],
  ])('%s', async (name, damage) => {
    const { page, offences } = await visitDamaged(name, damage);
    await expect.poll(() => page.getByRole('alert').innerText()).toContain('cannot be shown');
    expect(offences.filter((offence) => !offence.startsWith('console: '))).toEqual([]);
  });
});

test('a browser without DecompressionStream is told that it is too old', async () => {
  const { page } = await visit(recording('graphs.native'), {
    script: 'delete window.DecompressionStream',
    isStarted: false,
  });
  await expect.poll(() => page.locator('#app').innerText()).toContain('too old');
});

test('without scripts the page says that it needs them', async () => {
  const { page } = await visit(recording('graphs.native'), { isStarted: false, javaScriptEnabled: false });
  await expect.poll(() => page.locator('#app').innerText()).toContain('JavaScript');
});
