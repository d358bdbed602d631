// Segments, Table and Flame graph: the memory of one instant.

import { describe, expect, test } from 'vitest';
import { recording } from './support/places.mjs';
import { report } from './support/program.mjs';
import { drawn, linkOf, show, visit } from './support/visit.mjs';
import { bytesText, countText, oneLine } from './support/words.mjs';

const RUN = recording('oom_fragmented.native');

describe('segments', () => {
  const number = (panel, name) => panel.locator('dl > div', { hasText: name }).first().locator('dd').first().innerText();

  test('at the failure have the numbers of the doctor', async () => {
    const { page } = await visit(RUN, { hash: 'tab=segments' });
    const { numbers } = await report('doctor', RUN);
    const panel = page.locator('#panel-segments');
    await panel.getByRole('button', { name: 'Failure' }).click();
    await expect.poll(() => number(panel, 'Reserved')).toBe(bytesText(numbers.reserved_bytes));
    // The doctor counts what a block was given, the map what was asked for: less where a rest was not split off.
    const gib = async (name) => parseFloat(await number(panel, name));
    expect(await gib('Live')).toBeLessThanOrEqual(numbers.allocated_bytes / 2 ** 30 + 0.005);
    expect(await gib('Live')).toBeGreaterThan((0.99 * numbers.allocated_bytes) / 2 ** 30);
    expect((await gib('Live')) + (await gib('Idle'))).toBeCloseTo(numbers.reserved_bytes / 2 ** 30, 1);
    expect(await number(panel, 'The request that failed')).toBe(bytesText(numbers.tried_bytes));
  });

  test('an idle range says what pins it, and its pinners can be pinned', async () => {
    const { page } = await visit(RUN, { hash: 'tab=segments' });
    const panel = page.locator('#panel-segments');
    await panel.getByRole('button', { name: 'Failure' }).click();
    await panel.getByRole('list', { name: 'Segments by idle bytes' }).getByRole('button').first().click();
    await expect.poll(() => panel.innerText()).toMatch(/\d+ blocks? with .* keeps? .* idle: a segment is given back only as a whole/);
    const pinner = panel.getByRole('list', { name: 'Blocks that hold it' }).getByRole('button').first();
    const words = oneLine(await pinner.innerText());
    expect(words).toMatch(/^[\d.]+ (MiB|KiB|GiB|bytes) \S/);
    await pinner.click();
    await expect.poll(() => linkOf(page).get('block')).toMatch(/^\d+$/);
    await expect.poll(() => panel.getByText('Pinned block').count()).toBe(1);
    expect(await panel.innerText()).toContain(words.split(' ').slice(0, 2).join(' '));
  });

  test('follow the cursor: by the pointer and by keys', async () => {
    const { page } = await visit(RUN, { hash: 'tab=segments' });
    const slider = page.getByRole('slider', { name: 'Instant' });
    const { events } = (await report('stats', RUN)).devices[0];
    const now = async () => Number(await slider.getAttribute('aria-valuenow'));
    const box = await slider.boundingBox();
    await page.mouse.move(box.x + box.width / 4, box.y + box.height / 2);
    await page.mouse.down();
    await expect.poll(now).toBeLessThan(events * 0.27);
    expect(await now()).toBeGreaterThan(events * 0.23);
    const text = await page.locator('#panel-segments dl').first().innerText();
    await page.mouse.move(box.x + (box.width * 3) / 4, box.y + box.height / 2, { steps: 5 });
    await page.mouse.up();
    await expect.poll(now).toBeGreaterThan(events * 0.73);
    expect(await page.locator('#panel-segments dl').first().innerText()).not.toBe(text);
    const here = await now();
    await page.keyboard.press('ArrowRight');
    await expect.poll(now).toBe(here + 1);
    await page.keyboard.press('End');
    await expect.poll(now).toBe(events);
    const end = (await report('stats', RUN)).devices[0];
    const panel = page.locator('#panel-segments');
    expect(await number(panel, 'Reserved')).toBe(bytesText(end.reserved_bytes));
    expect(await number(panel, 'Live')).toBe(bytesText(end.active_bytes));
  });
});

describe('the table', () => {
  const rows = (page) => page.locator('#panel-table .table-body [role=row]');
  const cells = async (row) => (await row.getByRole('cell').allInnerTexts()).map(oneLine);
  const exactBytes = async (row) => Number((await row.locator('[title$=" bytes"]').first().getAttribute('title')).replace(/\D/g, ''));

  test('adds up to what `vramwise stats` says, in all and for each category', async () => {
    const path = recording('train_eval_phases.native');
    const { page } = await visit(path, { hash: 'tab=table' });
    const { peak } = (await report('stats', path)).devices[0];
    await expect
      .poll(() => page.locator('#panel-table [role=status]').innerText())
      .toContain(`${bytesText(peak.live_bytes)} in ${countText(peak.blocks)} blocks live at event`);
    await page.locator('#panel-table').getByRole('radio', { name: 'Category' }).check();
    await expect.poll(() => rows(page).count()).toBe(peak.categories.length);
    const shown = [];
    for (const row of await rows(page).all()) {
      const [, , , blocks, , category] = await cells(row);
      shown.push({ category, bytes: await exactBytes(row), blocks: Number(blocks.replace(/,/g, '')) });
    }
    expect(shown).toEqual(peak.categories.map(({ category, bytes, blocks }) => ({ category, bytes, blocks })));
  });

  test('is sorted by any column, either way', async () => {
    const { page } = await visit(recording('train_eval_phases.native'), { hash: 'tab=table' });
    const blocks = async () => {
      const all = [];
      for (const row of await rows(page).all()) all.push(Number((await cells(row))[3].replace(/,/g, '')));
      return all;
    };
    const heading = page.locator('#panel-table').getByRole('columnheader', { name: 'Blocks' });
    for (const [order, sign] of [['descending', -1], ['ascending', 1]]) {
      await heading.getByRole('button').click();
      await expect.poll(() => heading.getAttribute('aria-sort')).toBe(order);
      const now = await blocks();
      expect(now.length).toBeGreaterThan(4);
      expect(now).toEqual([...now].sort((a, b) => sign * (a - b)));
    }
  });

  test('shows what is searched for, and opens a stack', async () => {
    const { page } = await visit(RUN, { hash: 'tab=table' });
    await page.getByRole('searchbox').fill('train.py:172');
    await expect.poll(() => page.locator('#panel-table [role=status]').innerText()).toContain(' found, of ');
    for (const row of await rows(page).all()) expect((await cells(row)).join(' ')).toContain('train.py:172');
    await rows(page).first().getByRole('button', { name: 'Show the stack' }).click();
    await expect.poll(() => page.locator('#panel-table .stack-lines').innerText()).toContain('train.py:172');
    await page.getByRole('searchbox').fill('nothing is called so');
    await expect.poll(() => page.locator('#panel-table').innerText()).toContain('No block of this moment is what you search for');
  });
});

describe('the flame graph', () => {
  const path = recording('leak_loss.expand');
  const crumbs = (page) => page.getByRole('navigation', { name: 'Zoomed into' });

  test('zooms into a box by a click, and back', async () => {
    const { page } = await visit(path, { hash: 'tab=flame' });
    const { peak } = (await report('stats', path)).devices[0];
    const panel = page.locator('#panel-flame');
    await expect.poll(() => panel.locator('[role=status]').innerText()).toContain(`${bytesText(peak.live_bytes)} live at event`);
    const box = await panel.locator('canvas').boundingBox();
    await page.mouse.move(box.x + box.width / 4, box.y + 52);
    await expect.poll(() => page.locator('[role=tooltip]:visible').innerText()).toContain('train.py:152');
    await page.mouse.click(box.x + box.width / 4, box.y + 52);
    await expect.poll(async () => oneLine(await crumbs(page).innerText())).toMatch(/all.*train\.py:152 leak_loss$/);
    await page.keyboard.press('Escape');
    await expect.poll(() => crumbs(page).count()).toBe(0);
  });

  test('is walked through by keys', async () => {
    const { page } = await visit(path, { hash: 'tab=flame' });
    const panel = page.locator('#panel-flame');
    await drawn(page);
    for (let i = 0; i < 3; i++) await page.keyboard.press('ArrowDown');
    await expect.poll(() => panel.locator('[aria-live=polite]').innerText()).toContain('train.py');
    await page.keyboard.press('Enter');
    await expect.poll(() => crumbs(page).innerText()).toContain('all');
  });

  test('turned around begins with the innermost frames', async () => {
    const { page } = await visit(path, { hash: 'tab=flame' });
    const panel = page.locator('#panel-flame');
    await panel.getByLabel('Invert').check();
    await drawn(page);
    const box = await panel.locator('canvas').boundingBox();
    await page.mouse.move(box.x + 40, box.y + 31);
    await expect.poll(() => page.locator('[role=tooltip]:visible').innerText()).toContain('linear.py:134');
  });
});

test('a stack chosen in one tab is chosen in all', async () => {
  const { page } = await visit(RUN, { hash: 'tab=table' });
  const rows = page.locator('#panel-table .table-body [role=row]');
  await rows.first().getByRole('cell').nth(6).click();
  await expect.poll(() => rows.first().getAttribute('aria-selected')).toBe('true');
  await expect.poll(() => linkOf(page).get('stack')).not.toBe(null);
  await show(page, 'Timeline');
  await expect.poll(() => page.getByRole('complementary', { name: 'What is pinned' }).innerText()).toContain('Of this stack');
});
