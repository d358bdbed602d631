// Which browser, and how it is started. Software rendering: the same picture on every machine.

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

export const BROWSER_ARGUMENTS = [
  '--disable-gpu',
  '--force-color-profile=srgb',
  '--font-render-hinting=none',
  '--disable-background-networking',
];

/** VRAMWISE_CHROMIUM, or the first of the usual names that PATH has. */
export function findChromium() {
  if (process.env.VRAMWISE_CHROMIUM) return process.env.VRAMWISE_CHROMIUM;
  for (const name of NAMES) {
    for (const folder of (process.env.PATH ?? '').split(delimiter)) {
      const path = join(folder, name);
      try {
        accessSync(path, constants.X_OK);
        return path;
      } catch {
        // the next one
      }
    }
  }
  throw new Error(`no browser: PATH has none of ${NAMES.join(', ')} (tools/setup.sh viewer installs one)`);
}
