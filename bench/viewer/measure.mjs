// What the measurements of the page share: the recording, what its page holds, and how numbers are written.

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const VIEWPORT = { width: 1920, height: 1080 };

export const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
export const seconds = (ms) => `${(ms / 1000).toFixed(2)} s`;
export const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
export const count = (value) => Math.round(value).toLocaleString('en-US');

export const table = (rows, head = ['', '']) =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

/** The largest of VRAMWISE_CORPUS, or one of tests/data. */
export function chooseRecording() {
  const corpus = process.env.VRAMWISE_CORPUS;
  const path = corpus ? join(corpus, 'generate_kv.native.pickle.xz') : null;
  if (path !== null && existsSync(path)) return { name: 'generate_kv.native', path };
  const name = 'train_eval_phases.native';
  return { name, path: join(ROOT, 'tests/data/recordings', `${name}.pickle.xz`) };
}

export function statsOf(program, path) {
  const stats = JSON.parse(execFileSync(program, ['stats', '--json', path], { maxBuffer: 1 << 28 }));
  const device = stats.devices.reduce((most, one) => (one.events > most.events ? one : most));
  return { events: device.events, allocs: device.actions.alloc + (device.initial_blocks ?? 0) };
}

/** Objects and typed arrays, after collecting garbage. */
export async function heapOf(context, page) {
  const session = await context.newCDPSession(page);
  await session.send('HeapProfiler.enable');
  await session.send('HeapProfiler.collectGarbage');
  const usage = await session.send('Runtime.getHeapUsage');
  return { objects: usage.usedSize, arrays: usage.backingStorageSize ?? 0 };
}
