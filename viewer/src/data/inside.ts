// Rows of one line of the program: what tells them apart.

import type { Grouping, Row } from './groups';
import type { Stacks } from './model';
import { frameLabel } from './stacks';

interface Path {
  readonly key: string; // of its row
  readonly where: string;
  readonly frames: Uint32Array; // the innermost first
}

type LabelOf = (path: Path, depth: number) => string; // '' where the path has ended

/** Each frame is named once, however many stacks it is in. */
function labelling(stacks: Stacks): LabelOf {
  const known = new Map<number, string>();
  return ({ frames }, depth) => {
    if (depth >= frames.length) return '';
    const id = frames[depth]!, label = known.get(id) ?? frameLabel(stacks.frame(id));
    known.set(id, label);
    return label;
  };
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

/** Notes for each path the last frame, from the second on, by which it was told from others. */
function tellApart(paths: readonly Path[], labelOf: LabelOf, callers: Map<string, string>): void {
  const left: { readonly same: readonly Path[]; readonly depth: number }[] = [{ same: paths, depth: 1 }];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { same, depth } = next;
    if (same.length < 2 || same.every(({ frames }) => frames.length <= depth)) continue;
    const groups = groupsBy(same, (path) => labelOf(path, depth));
    for (const [label, group] of groups) {
      if (groups.size > 1) for (const { key } of group) callers.set(key, label);
      left.push({ same: group, depth: depth + 1 });
    }
  }
}

/** By key, for rows of one stack: "in linear.py:125 forward", the innermost frame where that is not the
 * row's own line. Rows that are still the same also get the frame in which they differ: "from model.py:40 mlp". */
export function insideOf(rows: readonly Row[], stacks: Stacks, grouping: Grouping): ReadonlyMap<string, string> {
  const paths = rows
    .filter((row) => row.usages.length === 1 || grouping === 'stack') // whose frames are the same
    .map((row): Path => ({ key: row.key, where: row.where, frames: stacks.frameIdsOf(row.usages[0]!.stack) }));
  const callers = new Map<string, string>(), labelOf = labelling(stacks);
  for (const group of groupsBy(paths, (path) => `${path.where}\n${labelOf(path, 0)}`).values()) tellApart(group, labelOf, callers);
  const texts = paths.map((path): [string, string] => {
    const { key, where } = path, inner = labelOf(path, 0) || where, caller = callers.get(key) ?? '';
    return [key, [inner === where ? '' : `in ${inner}`, caller === '' ? '' : `from ${caller}`].filter((part) => part !== '').join(', ')];
  });
  return new Map(texts);
}
