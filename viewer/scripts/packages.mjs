// Installs the packages of the lock file if node_modules is not already what it says. Without
// network it works as long as nothing changed. npm writes node_modules/.package-lock.json last, so an
// installation that was broken off does not pass.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const viewer = dirname(dirname(fileURLToPath(import.meta.url)));

function packagesOf(path) {
  const { packages } = JSON.parse(readFileSync(path, 'utf8'));
  delete packages['']; // ourselves
  return packages;
}

/** null, or what is not as the lock file says. Optional packages are other machines' binaries. */
function difference() {
  const notes = join(viewer, 'node_modules/.package-lock.json');
  if (!existsSync(notes)) return 'node_modules is not there';
  const wanted = packagesOf(join(viewer, 'package-lock.json'));
  const there = packagesOf(notes);
  for (const [path, { version, optional }] of Object.entries(wanted)) {
    if (!existsSync(join(viewer, path))) {
      if (!optional) return `${path} is not there`;
    } else if (there[path]?.version !== version) {
      return `${path} is ${there[path]?.version}, not ${version}`;
    }
  }
  const extra = Object.keys(there).find((path) => wanted[path] === undefined);
  return extra === undefined ? null : `${extra} is not in the lock file`;
}

const reason = difference();
if (reason !== null) {
  console.log(`viewer: npm ci (${reason})`);
  const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: viewer,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (npm.status !== 0) {
    console.error('viewer: npm ci failed; the first time it needs the network');
    process.exit(1);
  }
}
