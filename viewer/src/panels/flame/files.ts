// Colours of files: those that lead to most memory have the most different ones.

import type { Usage } from '../../data/groups';
import type { Stacks } from '../../data/model';
import { DISTINCT } from '../../look/palette';

function bytesOfFiles(stacks: Stacks, usages: readonly Usage[]): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const usage of usages)
    for (const file of new Set(stacks.framesOf(usage.stack).map((frame) => frame.file))) bytes.set(file, (bytes.get(file) ?? 0) + usage.bytes);
  return bytes;
}

/** Every file of the run; those that `usages` do not know come last. */
export function fileColours(stacks: Stacks, usages: readonly Usage[]): ReadonlyMap<string, string> {
  const bytes = bytesOfFiles(stacks, usages);
  const known = [...bytes].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([file]) => file);
  const others = new Set<string>();
  for (let stack = 0; stack < stacks.count; stack++)
    for (const frame of stacks.framesOf(stack)) if (!bytes.has(frame.file)) others.add(frame.file);
  return new Map([...known, ...[...others].sort()].map((file, i) => [file, DISTINCT[i % DISTINCT.length]!]));
}
