// A page opens by itself, and says what the command line says of the same recording.

import { expect, test } from 'vitest';
import { CORPUS, recording } from './support/places.mjs';
import { report } from './support/program.mjs';
import { show, visit } from './support/visit.mjs';
import { bytesText, oneLine } from './support/words.mjs';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const TABS = ['Timeline', 'Segments', 'Table', 'Flame graph', 'What-if', 'Leaks', 'Diff', 'Findings'];

const RECORDINGS = {
  'a training run': recording('train_eval_phases.native'),
  'a fragmented run that failed': recording('oom_fragmented.native'),
  'a leak, with expandable segments': recording('leak_loss.expand'),
  'several streams': recording('streams.native'),
  'private pools': recording('graphs.native'),
  'a ring that overflowed': recording('shapes/ring.shapes'),
  'no stacks': recording('shapes/no_stacks.shapes'),
};
for (const name of ['generate_kv.native', 'oom_fragmented.native', 'leak_loss.native']) {
  const path = join(CORPUS ?? '', `${name}.pickle.xz`);
  if (CORPUS !== null && existsSync(path)) RECORDINGS[`${name} of the corpus`] = path;
}

test.each(Object.entries(RECORDINGS))('%s: the verdict, the numbers and every tab', async (_, path) => {
  const { page } = await visit(path);
  const doctor = await report('doctor', path);
  const stats = await report('stats', path);
  const device = stats.devices[0];

  await expect.poll(async () => oneLine(await page.locator('.verdict').innerText())).toContain(oneLine(doctor.sentence));
  await expect.poll(() => page.locator('header').innerText()).toContain(path.split('/').pop());
  await expect.poll(() => page.locator('header select').last().innerText()).toContain(bytesText(device.peak.live_bytes));
  for (const name of TABS) {
    const panel = await show(page, name);
    await expect.poll(async () => (await panel.innerText()).trim().length).toBeGreaterThan(20);
    expect(await panel.innerText()).not.toContain('could not be drawn');
    expect(await panel.innerText()).not.toMatch(/\bNaN\b|undefined|\[object|Infinity/);
  }
});
