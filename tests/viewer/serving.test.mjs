// `vramwise view --serve`: the page fetches its data beside itself, and nothing else.

import { expect, test } from 'vitest';
import { recording } from './support/places.mjs';
import { report, whileServed } from './support/program.mjs';
import { show, visitAddress } from './support/visit.mjs';
import { oneLine } from './support/words.mjs';

test('a served page works as one in a file does', async () => {
  const path = recording('oom_fragmented.native');
  await whileServed([path], async (address) => {
    const { page } = await visitAddress(address, { also: ['data'] });
    const doctor = await report('doctor', path);
    await expect.poll(async () => oneLine(await page.locator('.verdict').innerText())).toContain(oneLine(doctor.sentence));
    for (const name of ['Segments', 'Table', 'Flame graph', 'What-if', 'Findings', 'Timeline'])
      expect(await (await show(page, name)).innerText()).not.toContain('could not be drawn');
  });
});

test('where the data is missing the page says so', async () => {
  await whileServed([recording('graphs.native')], async (address) => {
    const { page } = await visitAddress(address, {
      also: ['data'],
      isStarted: false,
      mayComplain: true,
      script: 'window.fetch = () => Promise.reject(new TypeError("refused"))',
    });
    await expect.poll(() => page.getByRole('alert').innerText()).toContain('no recording in it');
  });
});
