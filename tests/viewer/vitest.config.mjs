// The page of `vramwise view` in a real browser. The packages are those of viewer/: there is one
// lock file. Two workers, one browser.

import { fileURLToPath } from 'node:url';
import { PATIENCE_MS } from './support/places.mjs';

const packages = fileURLToPath(new URL('../../viewer/node_modules/', import.meta.url));

export default {
  root: fileURLToPath(new URL('.', import.meta.url)),
  cacheDir: fileURLToPath(new URL('../../viewer/build/browser-tests', import.meta.url)),
  resolve: {
    alias: {
      vitest: `${packages}vitest/dist/index.js`,
      'playwright-core': `${packages}playwright-core/index.mjs`,
    },
  },
  server: { fs: { strict: false } },
  test: {
    include: ['*.test.mjs'],
    globalSetup: ['support/browser_server.mjs'],
    pool: 'threads',
    poolOptions: { threads: { minThreads: 1, maxThreads: 2, isolate: false } },
    testTimeout: 3 * PATIENCE_MS,
    hookTimeout: 3 * PATIENCE_MS,
    expect: { poll: { timeout: PATIENCE_MS, interval: 50 } },
    slowTestThreshold: 20_000,
    reporters: ['dot'],
  },
};
