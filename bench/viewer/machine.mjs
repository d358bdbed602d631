// The machine, for whoever reads the numbers.

import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';

function system() {
  try {
    return /^PRETTY_NAME="?([^"\n]*)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'Linux';
  } catch {
    return 'Linux';
  }
}

export function describeMachine(browserVersion) {
  const processors = cpus();
  return [
    `${processors.length} virtual cores of ${processors[0]?.model.trim() ?? 'an unknown processor'}`,
    `${Math.round(totalmem() / 2 ** 30)} GiB`,
    `${system()}, Linux ${release()}`,
    `Chromium ${browserVersion}, headless, drawing in software (no GPU)`,
    `load ${loadavg()[0].toFixed(2)} when it began`,
  ].join('; ');
}
