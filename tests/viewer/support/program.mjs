// build/vramwise: the pages it writes, and what it says of the same recordings.

import { execFile, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { threadId } from 'node:worker_threads';
import { PAGES, PROGRAM } from './places.mjs';

const execute = promisify(execFile);
const pages = new Map();
const reports = new Map();

function once(map, key, make) {
  if (!map.has(key)) map.set(key, make());
  return map.get(key);
}

/** Standard output of `vramwise WORDS`. 1 is no failure: the doctor ends with it where it found one. */
export async function vramwise(...words) {
  try {
    const { stdout } = await execute(PROGRAM, words, { maxBuffer: 1 << 28 });
    return stdout;
  } catch (error) {
    if (error.code === 1 && error.stderr === '') return error.stdout;
    throw error;
  }
}

/** `vramwise COMMAND --json FILES`, as data; made once. */
export function report(command, ...files) {
  return once(reports, [command, ...files].join('\0'), async () =>
    JSON.parse(await vramwise(command, '--json', ...files)),
  );
}

/** The path of the page that `vramwise view` writes of the recordings; made once. */
export function pageOf(...files) {
  return once(pages, files.join('\0'), async () => {
    const path = join(PAGES, `${threadId}-${pages.size}.html`);
    await vramwise('view', ...files, '-o', path);
    return path;
  });
}

export const addressOf = (path) => pathToFileURL(path).href;

/** `vramwise view --serve` while `use(address)` runs. */
export async function whileServed(files, use) {
  const server = spawn(PROGRAM, ['view', ...files, '--serve'], { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((resolve) => server.once('close', resolve));
  try {
    const address = await new Promise((resolve, reject) => {
      let said = '';
      for (const stream of [server.stdout, server.stderr]) {
        createInterface({ input: stream }).on('line', (line) => {
          said += `${line}\n`;
          const found = /http:\/\/\S+/.exec(line);
          if (found) resolve(found[0]);
        });
      }
      server.once('close', () => reject(new Error(`vramwise view --serve ended: ${said}`)));
    });
    return await use(address);
  } finally {
    server.kill('SIGTERM');
    await ended;
  }
}
