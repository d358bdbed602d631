// Starts the one browser of all tests, and ends it.

import { mkdirSync, rmSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { BROWSER_ARGUMENTS, findChromium } from './chromium.mjs';
import { PAGES, SCREENSHOTS } from './places.mjs';

export default async function start({ provide }) {
  rmSync(PAGES, { recursive: true, force: true });
  for (const folder of [PAGES, SCREENSHOTS]) mkdirSync(folder, { recursive: true });
  const server = await chromium.launchServer({ executablePath: findChromium(), args: BROWSER_ARGUMENTS });
  provide('browser', server.wsEndpoint());
  return () => server.close();
}
