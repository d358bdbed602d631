// Every tab in two sizes of window, light and dark, for people to look at: build/viewer-screenshots.
// What is tested is that nothing sticks out of the window, and that a picture is not empty.

import { join } from 'node:path';
import { expect, test } from 'vitest';
import { recording, SCREENSHOTS } from './support/places.mjs';
import { show, visit } from './support/visit.mjs';

const TABS = ['Timeline', 'Segments', 'Table', 'Flame graph', 'What-if', 'Leaks', 'Diff', 'Findings'];
const SIZES = [
  { width: 1280, height: 800 },
  { width: 2560, height: 1440 },
];

test.each(SIZES.flatMap((viewport) => [[viewport.width, 'light', viewport], [viewport.width, 'dark', viewport]]))(
  'at %d pixels, %s',
  async (_, scheme, viewport) => {
    const { page } = await visit([recording('leak_loss.expand'), recording('oom_fragmented.native')], { viewport, colorScheme: scheme });
    for (const name of TABS) {
      await show(page, name);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      expect(overflow, `${name} is as wide as the window`).toBeLessThanOrEqual(0);
      const file = `${name.toLowerCase().replace(/\W+/g, '-')}-${viewport.width}-${scheme}.png`;
      const picture = await page.screenshot({ path: join(SCREENSHOTS, file), animations: 'disabled' });
      expect(picture.length).toBeGreaterThan(10_000);
    }
  },
);
