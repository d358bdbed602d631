// What-if, Leaks, Diff and Findings: what C concluded, shown.

import { describe, expect, test } from 'vitest';
import { recording } from './support/places.mjs';
import { report } from './support/program.mjs';
import { show, visit } from './support/visit.mjs';
import { bytesText, oneLine } from './support/words.mjs';

const FRAGMENTED = recording('oom_fragmented.native');
const LEAK = recording('leak_loss.expand');

/** The texts of each row. */
async function rowsOf(table) {
  const rows = [];
  for (const row of await table.locator('tbody tr').all()) rows.push((await row.locator('td').allInnerTexts()).map(oneLine));
  return rows;
}

test.each([
  ['a run that had room', recording('train_eval_phases.native')],
  ['a run that had none, under its own limit', FRAGMENTED],
])('what-if has a line for each policy, with the peak and the end of `vramwise replay`: %s', async (_, path) => {
  const { page } = await visit(path);
  const panel = await show(page, 'What-if');
  await expect.poll(() => panel.locator('tbody tr').count()).toBe(4);
  const { results } = await report('replay', path, '--policy', 'native,expandable,vramwise');
  const shown = new Map((await rowsOf(panel)).map(([policy, ...rest]) => [policy.split(' ')[0], rest]));
  expect([...shown.keys()]).toEqual(['recorded', ...results.map(({ policy }) => policy)]);
  for (const { policy, peak_reserved_bytes: peak, ratio, completed } of results) {
    expect(shown.get(policy)[0], policy).toBe(bytesText(peak));
    expect(shown.get(policy)[2], policy).toBe(ratio.toFixed(3));
    expect(shown.get(policy)[5], policy).toMatch(completed ? /^to the end$/ : /^out of memory at /);
  }
  const legend = oneLine(await panel.locator('.legend').innerText());
  for (const { policy } of results) expect(legend).toContain(policy);
});

test('on a phone what-if shows its peaks without scrolling, and explains its crosses', async () => {
  const { page } = await visit(FRAGMENTED, { viewport: { width: 390, height: 844 } });
  const panel = await show(page, 'What-if');
  await expect.poll(() => panel.locator('tbody tr').count()).toBe(4);
  const peaks = await panel.locator('td.number:nth-child(2)').evaluateAll((all) => all.map((one) => one.getBoundingClientRect().right));
  for (const right of peaks) expect(right).toBeLessThanOrEqual(390);
  expect(await panel.locator('.legend').innerText()).toContain('out of memory');
});

test('on a phone the lines of leaks have their whole names', async () => {
  const { page } = await visit(LEAK, { viewport: { width: 390, height: 844 } });
  const panel = await show(page, 'Leaks');
  await expect.poll(() => panel.locator('.legend li').count()).toBeGreaterThan(1);
  const cut = (all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText);
  expect(await panel.locator('.legend .name').evaluateAll(cut)).toEqual([]);
});

test('a card\'s size is compared with every policy', async () => {
  const { page } = await visit(recording('train_eval_phases.native'));
  const panel = await show(page, 'What-if');
  await panel.getByRole('textbox').fill('8GiB');
  await panel.getByRole('textbox').press('Enter');
  await expect.poll(() => panel.locator('.fit').innerText()).toMatch(/Below 8\.00 GiB stay: .*vramwise/);
});

test('a leak is named by its line', async () => {
  const { page } = await visit(LEAK);
  const panel = await show(page, 'Leaks');
  await expect.poll(() => panel.innerText()).toMatch(/stacks? grow.* a step together/);
  const [first] = await rowsOf(panel);
  expect(first.join(' ')).toContain('train.py:152 leak_loss');
});

test('a recording that does not grow has no leak', async () => {
  const { page } = await visit(recording('doctor/healthy_resnet'));
  const panel = await show(page, 'Leaks');
  await expect.poll(() => panel.innerText()).toMatch(/Nothing grows|no steps|too few/i);
});

describe('two recordings', () => {
  test('are compared as `vramwise diff` compares them', async () => {
    const { page } = await visit([LEAK, FRAGMENTED]);
    expect(await page.getByRole('tab', { selected: true }).innerText()).toBe('Diff');
    const diff = await report('diff', LEAK, FRAGMENTED);
    const panel = page.locator('#panel-diff');
    await expect.poll(() => panel.innerText()).toContain(`${bytesText(diff.before.peak_live_bytes)} were live before and ${bytesText(diff.after.peak_live_bytes)} after`);
    await expect.poll(() => panel.locator('tbody tr').count()).toBe(diff.change_count);
    for (const { after_where, before_where } of diff.changes) expect(await panel.innerText()).toContain(after_where ?? before_where ?? '');
    await panel.getByRole('radio', { name: 'by category' }).check();
    await expect.poll(() => panel.locator('tbody tr').count()).toBe(diff.categories.filter((one) => one.before_bytes !== one.after_bytes).length || diff.categories.length);
  });

  test('can each be looked at', async () => {
    const { page } = await visit([LEAK, FRAGMENTED]);
    await page.getByLabel('Recording').selectOption({ index: 1 });
    const doctor = await report('doctor', FRAGMENTED);
    await expect.poll(async () => oneLine(await page.locator('.verdict .sentence').first().innerText())).toBe(oneLine(doctor.sentence));
    await show(page, 'Timeline');
  });
});

describe('findings', () => {
  test('are all of the doctor\'s, with places and remedies', async () => {
    const { page } = await visit(FRAGMENTED);
    const panel = await show(page, 'Findings');
    const doctor = await report('doctor', FRAGMENTED);
    const text = oneLine(await panel.innerText());
    expect(doctor.findings.length).toBeGreaterThan(0);
    for (const finding of doctor.findings) {
      expect(text).toContain(oneLine(finding.title));
      for (const place of finding.where) expect(text).toContain(place);
      for (const remedy of finding.remedies) expect(text).toContain(oneLine(remedy.action));
    }
    for (const reason of doctor.reasoning) expect(text).toContain(oneLine(reason));
  });

  test('lead from the strip to where the pictures show it', async () => {
    const { page } = await visit(FRAGMENTED);
    await page.getByRole('group', { name: 'findings' }).getByRole('button').first().click();
    await expect.poll(() => page.getByRole('tab', { selected: true }).innerText()).toBe('Segments');
  });

  test('keep within their cards on a phone', async () => {
    const { page } = await visit(recording('doctor/oom_stranded_in_a_pool'), { viewport: { width: 390, height: 844 } });
    const panel = await show(page, 'Findings');
    const edges = await panel.locator('article').evaluateAll((cards) =>
      cards.flatMap((card) =>
        [...card.querySelectorAll('.parts > *')].map((part) => [part.getBoundingClientRect().right, card.getBoundingClientRect().right]),
      ),
    );
    expect(edges.length).toBeGreaterThan(0);
    for (const [part, card] of edges) expect(part).toBeLessThan(card);
  });
});
