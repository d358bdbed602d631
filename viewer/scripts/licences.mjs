// What goes into the page is somebody's: the page carries the licence of every package it is made of,
// and /THIRD_PARTY must name each, in the version that is used, with the whole text.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const viewer = dirname(dirname(fileURLToPath(import.meta.url)));
const read = (path) => readFileSync(join(viewer, path), 'utf8');
const inOneLine = (text) => text.replace(/\s+/g, ' ').trim();

/** Name, version, kind of licence and its text, of each. */
export function bundledPackages() {
  const { dependencies = {} } = JSON.parse(read('package.json'));
  return Object.keys(dependencies).map((name) => {
    const { version, license } = JSON.parse(read(`node_modules/${name}/package.json`));
    return { name, version, license, text: read(`node_modules/${name}/LICENSE`) };
  });
}

/** One sentence for each thing that a THIRD_PARTY of this text does not say. */
export function untoldLicences(thirdParty, packages) {
  const told = inOneLine(thirdParty);
  const untold = [];
  for (const { name, version, license, text } of packages) {
    if (!told.toLowerCase().includes(`${name} ${version}, ${license}`.toLowerCase()))
      untold.push(`THIRD_PARTY does not name '${name} ${version}, ${license}'`);
    if (!told.includes(inOneLine(text)))
      untold.push(`THIRD_PARTY does not have the whole licence of ${name}, as in viewer/node_modules/${name}/LICENSE`);
  }
  return untold;
}
