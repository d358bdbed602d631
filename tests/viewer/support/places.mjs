// Where things are. VRAMWISE_BUILD names another build folder than build/.

import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
export const BUILD = resolve(ROOT, process.env.VRAMWISE_BUILD ?? 'build');
export const PROGRAM = join(BUILD, 'vramwise');
export const PAGES = join(BUILD, 'viewer-tests');
export const SCREENSHOTS = join(BUILD, 'viewer-screenshots');
export const CORPUS = process.env.VRAMWISE_CORPUS ?? null;

/** A recording of tests/data: "leak_loss.expand", "shapes/annotations.shapes". */
export const recording = (name) => join(ROOT, 'tests/data/recordings', `${name}.pickle.xz`);

/** How long a test waits for what it expects: far longer than anything takes on a machine with much else
 * to do. VRAMWISE_PATIENCE_S is for whoever writes a test. */
export const PATIENCE_MS = 1000 * Number(process.env.VRAMWISE_PATIENCE_S ?? 30);
