// Names in a recording are whatever its author wrote. They are shown as text, and nothing of them is run,
// asked for or taken for markup: `visit` fails a test in which a dialog, a request or an error appears.

import { expect, test } from 'vitest';
import { frame, snapshot, trace, writeRecording } from './support/snapshot.mjs';
import { show, visit } from './support/visit.mjs';

const MIB = 2 ** 20;
const TABS = ['Timeline', 'Segments', 'Table', 'Flame graph', 'What-if', 'Leaks', 'Diff', 'Findings'];

const NAMES = {
  script: '<script>window.wasRun = 1; alert(1)</script>',
  'end of a script': '</script><script>window.wasRun = 1</script>',
  'image with a handler': '<img src=x onerror="window.wasRun = 1">',
  'svg in quotes': `"'><svg onload=window.wasRun=1>`,
  comment: '<!--<script>',
  'end of CDATA and entities': ']]>&lt;&amp;&#60;&quot;',
  template: '${window.wasRun = 1}{{window.wasRun = 1}}',
  address: 'javascript:window.wasRun=1//',
  'format words': '%s%n%d%c',
  newlines: 'first\nsecond\r\nthird\tfourth',
  'controls of a terminal': '\u001b[31mred\u0007\u0000\u0001',
  'right to left': '\u202egnp.exe\u2066\u200f',
  long: 'a'.repeat(10_000),
  'property of all objects': '__proto__',
  'another property': 'constructor',
  nothing: '',
};

const stacks = Object.values(NAMES).map((name) => [frame(name, name, 1), frame('main', `/home/${name}.py`, 2)]);

function hostileRecording(fileName) {
  const sizes = stacks.map((_, i) => (i + 2) * MIB);
  const one = trace({ sizes, kept: [0, 1, 2, 3], stackOf: (i) => stacks[i] });
  const annotations = Object.values(NAMES).flatMap((name, i) => [
    { name, stage: 'START', device: 0, time_us: one.events[i].time_us },
    { name, stage: 'END', device: 0, time_us: one.events[i + 1].time_us },
  ]);
  return writeRecording(fileName, snapshot([one], { external_annotations: annotations }));
}

/** What the page is made of by itself: elements that could run or fetch something. */
const dangerous = (page) =>
  page.evaluate(() => ({
    scripts: document.scripts.length,
    others: document.querySelectorAll('iframe, object, embed, img, link:not([rel=icon]), base, form, [onerror], [onload]').length,
    wasRun: 'wasRun' in window,
  }));

const UNTOUCHED = { scripts: 3, others: 0, wasRun: false };

test('in functions, files and annotations', async () => {
  const { page } = await visit(hostileRecording('plain.json'));
  expect(await dangerous(page)).toEqual(UNTOUCHED);
  for (const name of TABS) {
    const panel = await show(page, name);
    await expect.poll(async () => (await panel.innerText()).trim()).not.toBe('');
    expect(await panel.innerText()).not.toContain('could not be drawn');
    expect(await dangerous(page)).toEqual(UNTOUCHED);
  }
  const table = await show(page, 'Table');
  for (const name of [NAMES.script, NAMES['image with a handler'], NAMES['end of CDATA and entities']])
    await expect.poll(() => table.innerText()).toContain(name);
});

test('in the tooltip and the details of a pinned block', async () => {
  const { page } = await visit(hostileRecording('plain.json'));
  const canvas = (await show(page, 'Timeline')).locator('canvas').first();
  const box = await canvas.boundingBox();
  for (let share = 0.1; share < 0.95; share += 0.1) {
    for (const height of [0.5, 0.7, 0.9]) await page.mouse.move(box.x + box.width * share, box.y + box.height * height);
    await page.mouse.click(box.x + box.width * share, box.y + box.height * 0.85);
    expect(await dangerous(page)).toEqual(UNTOUCHED);
  }
});

test.each([
  ['markup', '<img src=x onerror="window.wasRun = 1">&amp;\'.json', '<img src=x onerror="window.wasRun = 1">&amp;\'.json'],
  ['a script', '<script>window.wasRun = 1; alert(1)<script>.json', '<script>window.wasRun = 1; alert(1)<script>.json'],
  ['a newline', 'first\nsecond.json', /first.second\.json$/s],
  ['right to left', '\u202egnp.json', /[^\u202e]gnp\.json$/],
])('in the name of the file: %s', async (_, name, shown) => {
  const { page } = await visit(hostileRecording(name));
  expect(await dangerous(page)).toEqual(UNTOUCHED);
  const text = expect.poll(() => page.locator('header .file').textContent());
  await (typeof shown === 'string' ? text.toContain(shown) : text.toMatch(shown));
  expect(await page.title()).toContain(typeof shown === 'string' ? shown : 'json');
});

test('in a link', async () => {
  const hash = new URLSearchParams({ tab: NAMES.script, q: NAMES['image with a handler'], view: '1e99-NaN', at: '-1', block: '99999999', stack: '__proto__', by: 'constructor', run: '7', dev: '9' });
  const { page } = await visit(hostileRecording('plain.json'), { hash: hash.toString() });
  expect(await dangerous(page)).toEqual(UNTOUCHED);
  expect(await page.getByRole('searchbox').inputValue()).toBe(NAMES['image with a handler']);
  await expect.poll(() => page.getByRole('tab', { selected: true }).innerText()).toBe('Timeline');
});

test('in a search', async () => {
  const { page } = await visit(hostileRecording('plain.json'));
  for (const text of ['(((((', '\\', NAMES.script, '"', '-', '>', '>>99999999999999999999', 'a'.repeat(600)]) {
    await page.getByRole('searchbox').fill(text);
    await page.getByRole('searchbox').press('Enter');
    for (const name of ['Table', 'Flame graph', 'Timeline']) await show(page, name);
  }
  expect(await dangerous(page)).toEqual(UNTOUCHED);
});
