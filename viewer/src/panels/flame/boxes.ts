// Which nodes of a tree can be seen at a width, and where. What is narrower than a pixel is one box
// with its like: the children of a node are by falling bytes, so that they stand side by side.

import type { Tree } from './tree';

export interface Box {
  readonly node: number; // of merged ones: the parent
  readonly depth: number;
  readonly x: number;
  readonly width: number;
  readonly merged: number; // how many nodes it stands for; 0: for itself
}

/** By depth, and from left to right. The way to `zoomed` takes the whole width. */
export function boxesOf(tree: Tree, zoomed: number, width: number, narrowest = 1): Box[] {
  const boxes: Box[] = [];
  for (let node = tree.parent[zoomed]!; node >= 0; node = tree.parent[node]!)
    boxes.push({ node, depth: tree.depth[node]!, x: 0, width, merged: 0 });
  boxes.reverse();
  const scale = tree.bytes[zoomed]! > 0 ? width / tree.bytes[zoomed]! : 0;
  let row: Box[] = [{ node: zoomed, depth: tree.depth[zoomed]!, x: 0, width, merged: 0 }];
  while (row.length > 0) {
    boxes.push(...row);
    row = row.flatMap((box) => (box.merged > 0 ? [] : childBoxes(tree, box, scale, narrowest)));
  }
  return boxes;
}

function childBoxes(tree: Tree, box: Box, scale: number, narrowest: number): Box[] {
  const found: Box[] = [], depth = box.depth + 1, end = tree.firstChild[box.node + 1]!;
  let x = box.x;
  for (let i = tree.firstChild[box.node]!; i < end; i++) {
    const node = tree.children[i]!, width = tree.bytes[node]! * scale;
    if (width < narrowest) {
      let rest = 0;
      for (let j = i; j < end; j++) rest += tree.bytes[tree.children[j]!]! * scale;
      if (rest >= narrowest) found.push({ node: box.node, depth, x, width: rest, merged: end - i });
      break;
    }
    found.push({ node, depth, x, width, merged: 0 });
    x += width;
  }
  return found;
}

/** The box at a place, or null. */
export function boxAt(boxes: readonly Box[], x: number, depth: number): Box | null {
  return boxes.find((box) => box.depth === depth && x >= box.x && x < box.x + box.width) ?? null;
}

export type Way = 'outward' | 'inward' | 'left' | 'right' | 'first' | 'last';

/** The box beside another one. It stays where there is none; null: there are no boxes. */
export function boxBeside(boxes: readonly Box[], at: Box | null, way: Way): Box | null {
  const own = boxes.filter((box) => box.merged === 0);
  if (own.length === 0) return null;
  const present = at === null ? undefined : own.find((box) => box.node === at.node);
  if (present === undefined) return own[0]!;
  const row = own.filter((box) => box.depth === present.depth), place = row.indexOf(present);
  switch (way) {
    case 'left':
      return row[place - 1] ?? present;
    case 'right':
      return row[place + 1] ?? present;
    case 'first':
      return row[0]!;
    case 'last':
      return row[row.length - 1]!;
    case 'outward':
    case 'inward': {
      const depth = present.depth + (way === 'inward' ? 1 : -1);
      // Below: the first that lies over it. Above: the one that it lies in.
      const over = (box: Box): boolean =>
        way === 'inward'
          ? box.x >= present.x && box.x < present.x + present.width
          : box.x <= present.x && present.x < box.x + box.width;
      return own.find((box) => box.depth === depth && over(box)) ?? present;
    }
  }
}
