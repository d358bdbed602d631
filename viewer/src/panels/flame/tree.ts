// Stacks laid over each other: a node for every way that leads to memory, as wide as the bytes that
// were asked for below it.

import type { Usage } from '../../data/groups';
import { NONE, type Stacks } from '../../data/model';

export const ROOT = 0;

/** In place of a frame: the root, and what has no stack. */
export const ALL_STACKS = -1;
export const NO_STACK = -2;

export interface Tree {
  readonly count: number;
  readonly frame: Int32Array; // a frame's number, ALL_STACKS or NO_STACK
  readonly parent: Int32Array; // -1: the root's
  readonly depth: Int32Array;
  readonly bytes: Float64Array;
  readonly matched: Float64Array; // of them, those that are searched for
  readonly blocks: Float64Array;
  readonly category: Uint8Array; // of most of its bytes
  readonly stack: Uint32Array; // the only one below it; NONE: several, or none
  readonly hasOneStack: Uint8Array;
  readonly firstChild: Int32Array; // in children; one more than there are nodes
  readonly children: Int32Array; // nodes, most bytes first
  readonly deepest: number;
  /** Where a stack ends, or undefined. */
  endOf(stack: number): number | undefined;
}

class Builder {
  readonly frame: number[] = [ALL_STACKS];
  readonly parent: number[] = [-1];
  readonly depth: number[] = [0];
  private readonly known = new Map<number, number>();

  constructor(private readonly frameSpace: number) {}

  child(parent: number, frame: number): number {
    const key = parent * this.frameSpace + frame + 2; // 0 and 1: the frames that are none
    let node = this.known.get(key);
    if (node === undefined) {
      node = this.frame.length;
      this.known.set(key, node);
      this.frame.push(frame);
      this.parent.push(parent);
      this.depth.push(this.depth[parent]! + 1);
    }
    return node;
  }
}

function frameSpaceOf(usages: readonly Usage[], stacks: Stacks): number {
  let highest = 0;
  for (const { stack } of usages) for (const id of stacks.frameIdsOf(stack)) if (id > highest) highest = id;
  return highest + 3;
}

function sortedChildren(parent: readonly number[], bytes: Float64Array): { firstChild: Int32Array; children: Int32Array } {
  const count = parent.length, firstChild = new Int32Array(count + 1);
  for (let node = 1; node < count; node++) firstChild[parent[node]! + 1]!++;
  for (let node = 0; node < count; node++) firstChild[node + 1]! += firstChild[node]!;
  const children = new Int32Array(count - 1), next = firstChild.slice();
  for (let node = 1; node < count; node++) children[next[parent[node]!]!++] = node;
  for (let node = 0; node < count; node++) {
    if (firstChild[node + 1]! - firstChild[node]! > 1)
      children.subarray(firstChild[node]!, firstChild[node + 1]!).sort((a, b) => bytes[b]! - bytes[a]! || a - b);
  }
  return { firstChild, children };
}

/** `isInverted`: the innermost frames stand at the root. `matchedBytes`: of each stack that is searched for. */
export function makeTree(usages: readonly Usage[], stacks: Stacks, isInverted: boolean, matchedBytes: ReadonlyMap<number, number> | null = null): Tree {
  const builder = new Builder(frameSpaceOf(usages, stacks)), ends = new Map<number, number>();
  for (const { stack } of usages) {
    const ids = stacks.frameIdsOf(stack);
    let node = ids.length === 0 ? builder.child(ROOT, NO_STACK) : ROOT;
    for (let i = 0; i < ids.length; i++) node = builder.child(node, ids[isInverted ? i : ids.length - 1 - i]!);
    ends.set(stack, node);
  }
  const { parent, frame, depth } = builder, count = frame.length, categories = stacks.categories.length;
  const bytes = new Float64Array(count), matched = new Float64Array(count), blocks = new Float64Array(count);
  const stackCount = new Uint32Array(count), stack = new Uint32Array(count).fill(NONE);
  const mostOfCategory = new Float64Array(count * categories);
  for (const usage of usages) {
    const category = stacks.categoryOf(usage.stack), found = matchedBytes?.get(usage.stack) ?? 0;
    for (let node = ends.get(usage.stack)!; node >= 0; node = parent[node]!) {
      bytes[node]! += usage.bytes;
      blocks[node]! += usage.blocks;
      matched[node]! += found;
      stackCount[node]!++;
      stack[node] = usage.stack;
      mostOfCategory[node * categories + category]! += usage.bytes;
    }
  }
  const category = new Uint8Array(count);
  for (let node = 0; node < count; node++) {
    if (stackCount[node] !== 1) stack[node] = NONE;
    for (let i = 1; i < categories; i++)
      if (mostOfCategory[node * categories + i]! > mostOfCategory[node * categories + category[node]!]!) category[node] = i;
  }
  return {
    count,
    frame: Int32Array.from(frame),
    parent: Int32Array.from(parent),
    depth: Int32Array.from(depth),
    bytes,
    matched,
    blocks,
    category,
    stack,
    hasOneStack: Uint8Array.from(stackCount, (value) => (value === 1 ? 1 : 0)),
    ...sortedChildren(parent, bytes),
    deepest: depth.reduce((deepest, value) => Math.max(deepest, value), 0),
    endOf: (wanted) => ends.get(wanted),
  };
}

/** From the root to a node, both with it. */
export function pathTo(tree: Tree, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0; at = tree.parent[at]!) path.push(at);
  return path.reverse();
}

/** The node that is the same way in another tree, or as far as that leads. */
export function sameNode(from: Tree, node: number, to: Tree): number {
  let at = ROOT;
  for (const step of pathTo(from, node).slice(1)) {
    const children = to.children.subarray(to.firstChild[at]!, to.firstChild[at + 1]!);
    const next = children.find((child) => to.frame[child] === from.frame[step]);
    if (next === undefined) break;
    at = next;
  }
  return at;
}
