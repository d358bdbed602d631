// What `make check-viewer` does: the types, the unit tests, that the committed page is what the
// sources give, and that the licences of what is in it are told. Each runs beside the others; what
// one says is shown only if it fails.

import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundledPackages, untoldLicences } from './licences.mjs';

const viewer = dirname(dirname(fileURLToPath(import.meta.url)));
const scratch = join(viewer, 'build/check');

function run(...words) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, words, { cwd: viewer, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text));
    child.on('error', reject);
    child.on('close', (status) => (status === 0 ? resolve(said) : reject(new Error(said.trim()))));
  });
}

function firstDifference(one, other) {
  const end = Math.min(one.length, other.length);
  for (let i = 0; i < end; i++) if (one[i] !== other[i]) return i;
  return end;
}

async function checkPage() {
  mkdirSync(scratch, { recursive: true });
  await run('node_modules/vite/bin/vite.js', 'build', '--logLevel', 'warn', '--outDir', scratch, '--emptyOutDir');
  await run('scripts/seal.mjs', scratch, join(scratch, 'sealed.html'));
  const committed = readFileSync(join(viewer, 'dist/page.html'));
  const built = readFileSync(join(scratch, 'sealed.html'));
  if (!committed.equals(built))
    throw new Error(
      `viewer/dist/page.html (${committed.length} bytes) is not what the sources give (${built.length} bytes,` +
        ` different from byte ${firstDifference(committed, built)} on): run \`make viewer\` and commit the page`,
    );
}

async function checkLicences() {
  const untold = untoldLicences(readFileSync(join(viewer, '../THIRD_PARTY'), 'utf8'), bundledPackages());
  if (untold.length > 0) throw new Error(untold.join('\n'));
}

const checks = {
  'the types': run('node_modules/typescript/bin/tsc', '--noEmit'),
  'the unit tests': run('node_modules/vitest/vitest.mjs', 'run', '--reporter=dot'),
  'the committed page': checkPage(),
  'the licences': checkLicences(),
};
const results = await Promise.allSettled(Object.values(checks));
Object.keys(checks).forEach((name, i) => {
  if (results[i].status === 'rejected') {
    console.error(`viewer: ${name}:\n${results[i].reason.message}\n`);
    process.exitCode = 1;
  }
});
if (!process.exitCode) console.log(`viewer: ${Object.keys(checks).join(', ')}: as they should be`);
