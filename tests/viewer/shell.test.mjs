// What surrounds the panels: keys, colours, links, pictures as files.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { describe, expect, test } from 'vitest';
import { PAGES, recording } from './support/places.mjs';
import { linkOf, ready, show, visit } from './support/visit.mjs';

const RUN = recording('oom_fragmented.native');
const TABS = ['Timeline', 'Segments', 'Table', 'Flame graph', 'What-if', 'Leaks', 'Diff', 'Findings'];
const selected = (page) => page.getByRole('tab', { selected: true });
const theme = (page) => page.locator('html').getAttribute('data-theme');

describe('the keyboard alone', () => {
  test('reaches every tab, the search, the help and what is pinned', async () => {
    const { page } = await visit(RUN);
    for (const [i, name] of ['Findings', ...TABS.filter((one) => one !== 'Findings')].entries()) {
      await page.keyboard.press(String(i + 1));
      await expect.poll(() => selected(page).innerText()).toBe(name);
    }
    await page.keyboard.press('?');
    const help = page.getByRole('dialog');
    await expect.poll(() => help.innerText()).toContain('zoom in');
    await page.keyboard.press('Escape');
    await expect.poll(() => help.count()).toBe(0);
    await page.keyboard.press('/');
    await page.keyboard.type('train.py');
    await expect.poll(() => linkOf(page).get('q')).toBe('train.py');
    await page.keyboard.press('Escape');
    await expect.poll(() => linkOf(page).get('q')).toBe(null);
  });

  test('walks through the page by Tab, and along the tabs by arrows', async () => {
    const { page } = await visit(RUN);
    const seen = new Set();
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press('Tab');
      const [name, isOutlined] = await page.evaluate(() => {
        const element = document.activeElement;
        const style = getComputedStyle(element);
        const label = element.getAttribute('aria-label') ?? element.getAttribute('title') ?? element.textContent;
        const isSeen = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
        return [element === document.body ? '' : label, element === document.body || isSeen || element.matches('input[type=radio]')];
      });
      expect(isOutlined, `'${name}' shows that it has the focus`).toBe(true);
      seen.add(name.trim());
      if (name.trim() === 'Findings (1)') break;
    }
    expect([...seen].join('; ')).toMatch(/Device.*Search.*Copies the address.*Hide frames.*Save.*colours.*Keys.*Findings/);
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => selected(page).innerText()).toBe('Timeline');
    await page.keyboard.press('End');
    await expect.poll(() => selected(page).innerText()).toBe('Diff');
  });
});

describe('colours', () => {
  test('are the system\'s at first', async () => {
    const { page } = await visit(RUN, { colorScheme: 'dark' });
    expect(await theme(page)).toBe('dark');
    await page.emulateMedia({ colorScheme: 'light' });
    await expect.poll(() => theme(page)).toBe('light');
  });

  test('can be chosen, and the choice is kept', async () => {
    const { page } = await visit(RUN, { colorScheme: 'light' });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.getByRole('button', { name: 'Theme' }).click();
    await expect.poll(() => page.getByRole('button', { name: 'Theme' }).innerText()).toContain('light');
    await page.keyboard.press('t');
    await expect.poll(() => theme(page)).toBe('dark');
    expect(await ground()).not.toBe(light);
    await page.reload({ waitUntil: 'commit' });
    await ready(page);
    expect(await theme(page)).toBe('dark');
  });
});

describe('a link', () => {
  test('brings another reader to the same place', async () => {
    const { page } = await visit(RUN);
    await show(page, 'Table');
    await page.getByRole('searchbox').fill('train.py');
    await expect.poll(() => linkOf(page).get('q')).toBe('train.py');
    await page.getByRole('button', { name: 'Copy link' }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    expect(copied).toBe(page.url());

    const other = await visit(RUN, { hash: new URL(copied).hash.slice(1) });
    expect(await selected(other.page).innerText()).toBe('Table');
    expect(await other.page.getByRole('searchbox').inputValue()).toBe('train.py');
  });

  test('is a step of the history for each tab', async () => {
    const { page } = await visit(RUN);
    await show(page, 'Segments');
    await show(page, 'Findings');
    await page.goBack();
    await expect.poll(() => selected(page).innerText()).toBe('Segments');
    await page.goForward();
    await expect.poll(() => selected(page).innerText()).toBe('Findings');
  });
});

/** What the menu Save gives: its name and bytes. */
async function save(page, entry) {
  await page.getByRole('button', { name: 'Save' }).click();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('menuitem', { name: entry }).click(),
  ]);
  const path = join(PAGES, `saved-${threadId}`);
  await download.saveAs(path);
  return { name: download.suggestedFilename(), bytes: readFileSync(path) };
}

/** Of pixels in a PNG: size, and how many colours there are in it. */
const lookAt = (page, bytes) =>
  page.evaluate(async (base64) => {
    const binary = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([binary], { type: 'image/png' }));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const context = canvas.getContext('2d');
    context.drawImage(bitmap, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, bitmap.width, bitmap.height).data.buffer);
    return { width: bitmap.width, height: bitmap.height, colours: new Set(pixels).size };
  }, bytes.toString('base64'));

describe('pictures as files', () => {
  test.each([
    ['Timeline', 'timeline'],
    ['Segments', 'segments'],
    ['Flame graph', 'flame'],
    ['What-if', 'what-if'],
  ])('%s', async (tab, word) => {
    const { page } = await visit(recording('leak_loss.expand'));
    await show(page, tab);
    const png = await save(page, 'PNG');
    expect(png.name).toMatch(new RegExp(`^leak_loss.*${word}.*\\.png$`));
    const picture = await lookAt(page, png.bytes);
    expect(picture.width).toBeGreaterThan(600);
    expect(picture.height).toBeGreaterThan(100);
    expect(picture.colours).toBeGreaterThan(8);

    const svg = await save(page, 'SVG');
    expect(svg.name).toMatch(/\.svg$/);
    const shapes = await page.evaluate((text) => {
      const parsed = new DOMParser().parseFromString(text, 'image/svg+xml');
      if (parsed.querySelector('parsererror')) return 'not XML';
      return {
        root: parsed.documentElement.localName,
        shapes: parsed.querySelectorAll('rect, path, polygon, polyline, line').length,
        texts: parsed.querySelectorAll('text').length,
        others: parsed.querySelectorAll('script, foreignObject, a').length,
      };
    }, svg.bytes.toString('utf8'));
    expect(shapes).toEqual({ root: 'svg', shapes: expect.any(Number), texts: expect.any(Number), others: 0 });
    expect(shapes.shapes).toBeGreaterThan(5);
    expect(shapes.texts).toBeGreaterThan(2);
  });
});

describe('where something is wrong', () => {
  test('Findings is the first tab, and the one that is shown', async () => {
    const { page } = await visit(RUN);
    expect(await selected(page).innerText()).toBe('Findings');
    expect((await page.getByRole('tab').allInnerTexts())[0]).toBe('Findings');
  });

  test('and where nothing is, the timeline is', async () => {
    const { page } = await visit(recording('train_eval_phases.native'));
    expect(await selected(page).innerText()).toBe('Timeline');
    expect((await page.getByRole('tab').allInnerTexts())[0]).toBe('Timeline');
  });

  test('no chip has the name of another verdict', async () => {
    const { page } = await visit(RUN);
    const verdict = await page.locator('.verdict .word').innerText();
    const names = await page.locator('.verdict .chip b').allInnerTexts();
    expect(names).toContain(verdict);
    for (const other of ['genuine', 'leak', 'kept-graph', 'stranded', 'outside', 'capped', 'refused', 'too-large', 'host'])
      expect(names).not.toContain(other);
  });
});

test.each(['Timeline', 'Table', 'Findings'].flatMap((name) => [[name, 'one recording', [RUN]], [name, 'two', [recording('leak_loss.expand'), RUN]]]))(
  'on a phone what is above %s of %s takes at most a fifth of the height', async (name, _, files) => {
  const { page } = await visit(files, { viewport: { width: 390, height: 844 } });
  await show(page, name);
  const { y } = await page.locator('.panels').boundingBox();
  expect(y).toBeLessThanOrEqual(844 / 5);
  expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBeLessThanOrEqual(0);
});

test.each([390, 1280])('at %d pixels the rows of the table show where stacks of one line differ', async (width) => {
  const { page } = await visit(recording('train_eval_phases.native'), { viewport: { width, height: 844 } });
  await show(page, 'Table');
  const inner = page.locator('.table-row .where .muted');
  await expect.poll(() => inner.allInnerTexts()).toContain(', in pytorch_utils.py:119 forward, from modeling_gpt2.py:239 forward');
  const texts = (await inner.allInnerTexts()).filter((text) => !text.includes('convert')); // which calls itself, to any depth
  expect(new Set(texts).size).toBe(texts.length);
  const ends = await inner.evaluateAll((all) =>
    all.map((one) => {
      const last = document.createTreeWalker(one, NodeFilter.SHOW_TEXT).nextNode(), range = document.createRange();
      range.setStart(last, last.length - 1);
      range.setEnd(last, last.length);
      return { letter: range.getBoundingClientRect().right, cell: Math.min(one.getBoundingClientRect().right, window.innerWidth) };
    }),
  );
  for (const { letter, cell } of ends) expect(letter).toBeLessThanOrEqual(cell + 1);
  const cut = (all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText);
  expect(await page.locator('.table-row [role=cell]:nth-child(6)').evaluateAll(cut)).toEqual([]); // the category
});

test('with frames of libraries hidden, rows that would be the same are one', async () => {
  const { page } = await visit(recording('train_eval_phases.native'), { hash: 'tab=table&frames=own' });
  const rows = page.locator('.table-row > [role=row]');
  await expect.poll(() => rows.count()).toBeGreaterThan(3);
  const names = await rows.evaluateAll((all) => all.map((row) => [5, 6].map((i) => row.children[i].innerText).join(' ')));
  expect(new Set(names).size).toBe(names.length);
});

test.each(['Segments', 'Table', 'What-if', 'Leaks'])('the table of %s is saved as CSV by a key', async (name) => {
  const { page } = await visit(recording('leak_loss.expand'));
  await show(page, name);
  const [download] = await Promise.all([page.waitForEvent('download'), page.keyboard.press('c')]);
  expect(download.suggestedFilename()).toMatch(/^leak_loss.*-[a-z-]+\.csv$/);
  const path = join(PAGES, `${threadId}-${download.suggestedFilename()}`);
  await download.saveAs(path);
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  expect(lines.length).toBeGreaterThan(1);
  expect(lines[0]).toMatch(/bytes/);
});

test('frames of libraries are hidden by a key, in the link too', async () => {
  const { page } = await visit(recording('leak_loss.expand'), { hash: 'tab=table' });
  await page.locator('.twist').first().click();
  const lines = page.locator('.table-row .detail li'), all = await lines.count();
  await page.keyboard.press('f');
  await expect.poll(() => linkOf(page).get('frames')).toBe('own');
  await expect.poll(() => lines.count()).toBeLessThan(all);
  for (const text of await lines.allInnerTexts()) expect(text).not.toMatch(/site-packages|lib\/python3/);
  await page.keyboard.press('f');
  await expect.poll(() => lines.count()).toBe(all);
});
