// Rows of one line of the program: what tells them apart.

import type { Grouping, Row } from './groups';
import type { Stacks } from './model';
import { frameLabel } from './stacks';

interface Path {
  readonly key: string; // of its row
  readonly where: string;
  readonly labels: readonly string[]; // the innermost first
}

function groupsBy(paths: readonly Path[], nameOf: (path: Path) => string): Map<string, Path[]> {
  const groups = new Map<string, Path[]>();
  for (const path of paths) {
    const name = nameOf(path), known = groups.get(name);
    if (known === undefined) groups.set(name, [path]);
    else known.push(path);
  }
  return groups;
}

/** Notes for each path the innermost frame from `depth` on by which it differs from the others. */
function tellApart(paths: readonly Path[], depth: number, callers: Map<string, string>): void {
  const deepest = Math.max(...paths.map((path) => path.labels.length));
  for (let at = depth; paths.length > 1 && at < deepest; at++) {
    const groups = groupsBy(paths, (path) => path.labels[at] ?? '');
    if (groups.size === 1) continue;
    for (const [label, group] of groups) {
      for (const { key } of group) callers.set(key, label);
      tellApart(group, at + 1, callers);
    }
    return;
  }
}

/** By key, for rows of one stack: "in linear.py:125 forward", the innermost frame where that is not the
 * row's own line. Rows that are still the same also get the frame in which they differ: "from model.py:40 mlp". */
export function insideOf(rows: readonly Row[], stacks: Stacks, grouping: Grouping): ReadonlyMap<string, string> {
  const paths = rows
    .filter((row) => row.usages.length === 1 || grouping === 'stack') // whose frames are the same
    .map((row): Path => ({ key: row.key, where: row.where, labels: stacks.framesOf(row.usages[0]!.stack).map(frameLabel) }));
  const callers = new Map<string, string>();
  for (const group of groupsBy(paths, ({ where, labels }) => `${where}\n${labels[0] ?? ''}`).values()) tellApart(group, 1, callers);
  const texts = paths.map(({ key, where, labels }): [string, string] => {
    const inner = labels[0] ?? where, caller = callers.get(key) ?? '';
    return [key, [inner === where ? '' : `in ${inner}`, caller === '' ? '' : `from ${caller}`].filter((part) => part !== '').join(', ')];
  });
  return new Map(texts);
}
