// The page of `vramwise report -o`: the ranks of a job, in a table.

import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { PAGES, recording, SCREENSHOTS } from './support/places.mjs';
import { addressOf, vramwise } from './support/program.mjs';
import { frame, snapshot, trace } from './support/snapshot.mjs';
import { visitAddress } from './support/visit.mjs';
import { bytesText, oneLine } from './support/words.mjs';

const MIB = 2 ** 20;
const HOSTILE = '<img src=x onerror="window.wasRun = 1">';

function folderOf(name) {
  const folder = join(PAGES, `job-${threadId}-${name}`);
  mkdirSync(folder, { recursive: true });
  return folder;
}

async function pageOf(folder) {
  const path = `${folder}.html`;
  await vramwise('report', folder, '-o', path);
  return addressOf(path);
}

/** Four ranks, of which 2 fails and 3 leaks. */
function mixedJob() {
  const folder = folderOf('mixed');
  const files = { 0: 'doctor/healthy_resnet', 1: 'doctor/healthy_resnet', 2: 'oom_fragmented.native', 3: 'leak_loss.expand' };
  for (const [rank, name] of Object.entries(files)) cpSync(recording(name), join(folder, `run.rank${rank}.pickle`));
  return folder;
}

const ranksIn = (page) => page.locator('table.ranks tbody tr td:first-child').allInnerTexts();

test('shows what `vramwise report --json` says, and sorts it', async () => {
  const folder = mixedJob();
  const report = JSON.parse(await vramwise('report', '--json', folder));
  const { page } = await visitAddress(await pageOf(folder));
  expect(await page.title()).toBe(`${folder} - vramwise`);
  await expect.poll(() => ranksIn(page)).toEqual(['0', '1', '2', '3']);
  const rows = await page.locator('table.ranks tbody tr').all();
  for (const [i, rank] of report.ranks.entries()) {
    const text = oneLine(await rows[i].innerText());
    expect(text).toContain(bytesText(rank.peak_live_bytes));
    expect(text).toContain(rank.verdict);
  }
  await page.getByRole('button', { name: 'live peak' }).click();
  const byLive = [...report.ranks].sort((one, other) => other.peak_live_bytes - one.peak_live_bytes).map((rank) => String(rank.rank));
  await expect.poll(() => ranksIn(page)).toEqual(byLive);
});

test('marks the first failure, and another rank can be chosen by keys', async () => {
  const { page } = await visitAddress(await pageOf(mixedJob()));
  const detail = page.locator('.rank-detail');
  await expect.poll(() => page.locator('tr.first td').first().innerText()).toBe('2');
  await expect.poll(() => detail.innerText()).toContain('Rank 2');
  expect(await detail.innerText()).toMatch(/vramwise view \S*run\.rank2\.pickle/);
  await page.keyboard.press('ArrowDown');
  await expect.poll(() => detail.innerText()).toContain('Rank 3');
  await detail.getByRole('button', { name: 'Copy' }).first().click();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toMatch(/^vramwise doctor .*run\.rank3\.pickle$/);
});

test.each([[1280, 'light'], [1280, 'dark'], [390, 'light']])('fits a window of %d pixels, %s', async (width, colorScheme) => {
  const { page } = await visitAddress(await pageOf(mixedJob()), { viewport: { width, height: 800 }, colorScheme });
  await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).toBe(colorScheme);
  expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBeLessThanOrEqual(0);
  await page.screenshot({ path: join(SCREENSHOTS, `ranks-${width}-${colorScheme}.png`), animations: 'disabled' });
});

test('names of files, functions and settings stay text', async () => {
  const folder = folderOf(`${HOSTILE.replace('/', '')}`);
  for (let rank = 0; rank < 3; rank++) {
    const sizes = [2, rank === 2 ? 19 : 3].map((size) => size * MIB);
    const stackOf = (i) => [frame(HOSTILE, `/home/me/${HOSTILE}.py`, i + 1)];
    const more = { allocator_settings: { [HOSTILE]: rank === 2 ? HOSTILE : 'plain', expandable_segments: false } };
    writeFileSync(join(folder, `rank${rank} ${HOSTILE}.json`), JSON.stringify(snapshot([trace({ sizes, stackOf })], more)));
  }
  writeFileSync(join(folder, `${HOSTILE}.bin`), 'x');
  const { page } = await visitAddress(await pageOf(folder));
  await page.locator('summary').click();
  await expect.poll(() => page.locator('main').innerText()).toContain(`${HOSTILE}.bin`);
  expect(await page.locator('.sites').innerText()).toContain(`${HOSTILE}.py:2 ${HOSTILE}`);
  expect(await page.locator('img, iframe, object').count()).toBe(0);
  expect(await page.evaluate(() => 'wasRun' in window)).toBe(false);
});
