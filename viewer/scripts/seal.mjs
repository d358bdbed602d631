// seal.mjs [FOLDER [PAGE]] - build/index.html, page.js and page.css become dist/page.html: one file
// that needs no other.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAst } from 'vite';
import { bundledPackages } from './licences.mjs';
import { scriptsOf, seal } from './sealing.mjs';

const viewer = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = resolve(process.argv[2] ?? join(viewer, 'build'));
const target = resolve(process.argv[3] ?? join(viewer, 'dist/page.html'));
const read = (name) => readFileSync(join(folder, name), 'utf8');

const page = seal({
  html: read('index.html'),
  script: read('page.js'),
  style: read('page.css'),
  notices: bundledPackages().map(({ name, version, text }) => ({ name: `${name} ${version}`, licence: text })),
});
for (const script of scriptsOf(page)) parseAst(script); // throws where escaping broke the code
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, page);
console.log(`${target}: ${Buffer.byteLength(page)} bytes`);
