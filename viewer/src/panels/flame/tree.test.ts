import { describe, expect, it } from 'vitest';
import { usageByStack, type Usage } from '../../data/groups';
import { NONE, type Frame } from '../../data/model';
import { sampleRun } from '../../testing/model';
import { boxAt, boxBeside, boxesOf } from './boxes';
import { ALL_STACKS, makeTree, NO_STACK, pathTo, ROOT, sameNode, type Tree } from './tree';

// Frames of the sample are numbered one by one; equal ones have to be the same number here.
const main: Frame = { functionName: 'main', file: 'm.py', line: 1 };
const run = sampleRun({
  lastInstant: 4,
  blocks: [
    { begin: 0, size: 1024, stack: 0 },
    { begin: 1, size: 2048, stack: 1 },
    { begin: 1, size: 512, stack: 1 },
    { begin: 2, size: 512, stack: 2 },
    { begin: 2, size: 1536 },
    { begin: 2, size: 512, stack: 3 },
  ],
  stacks: [
    { category: 'weights', frames: [{ ...main, functionName: 'a' }, main] },
    { category: 'activations', frames: [{ ...main, functionName: 'b' }, main] },
    { category: 'activations', frames: [main] },
    { category: 'other', frames: [] },
  ],
});
const device = run.devices[0]!;
const byName = new Map<string, number>();
const stacks = {
  ...run.stacks,
  frameIdsOf: (stack: number): Uint32Array =>
    run.stacks.frameIdsOf(stack).map((id) => {
      const name = run.stacks.frame(id).functionName;
      if (!byName.has(name)) byName.set(name, id);
      return byName.get(name)!;
    }),
};
const usages = usageByStack(device, stacks, 'cursor', 4);

function name(tree: Tree, node: number): string {
  const frame = tree.frame[node]!;
  return frame === ALL_STACKS ? 'all' : frame === NO_STACK ? 'none' : stacks.frame(frame).functionName;
}

function childrenOf(tree: Tree, node: number): string[] {
  return Array.from(tree.children.subarray(tree.firstChild[node]!, tree.firstChild[node + 1]!), (child) => `${name(tree, child)} ${tree.bytes[child]!}`);
}

describe('a tree of stacks', () => {
  const tree = makeTree(usages, stacks, false);

  it('goes from the outermost frame to the innermost, most bytes first', () => {
    expect(tree.bytes[ROOT]).toBe(6144);
    expect(childrenOf(tree, ROOT)).toEqual(['main 4096', 'none 2048']);
    const outermost = tree.children[0]!;
    expect(childrenOf(tree, outermost)).toEqual(['b 2560', 'a 1024']);
    expect(tree.deepest).toBe(2);
    expect(tree.blocks[outermost]).toBe(4);
  });

  it('has one box for everything without a frame', () => {
    const none = tree.endOf(NONE)!;
    expect(tree.frame[none]).toBe(NO_STACK);
    expect(tree.endOf(3)).toBe(none);
    expect(tree.hasOneStack[none]).toBe(0);
  });

  it('knows where only one stack leads', () => {
    const b = tree.endOf(1)!;
    expect([tree.hasOneStack[b], tree.stack[b]]).toEqual([1, 1]);
    expect(tree.hasOneStack[ROOT]).toBe(0);
    expect(stacks.categories[tree.category[tree.parent[b]!]!]).toBe('activations');
  });

  it('has no node with less than its children', () => {
    for (let node = 0; node < tree.count; node++) {
      let sum = 0;
      for (const child of tree.children.subarray(tree.firstChild[node]!, tree.firstChild[node + 1]!)) {
        expect(tree.parent[child]).toBe(node);
        sum += tree.bytes[child]!;
      }
      expect(sum).toBeLessThanOrEqual(tree.bytes[node]!);
    }
  });

  it('is turned around', () => {
    const inverted = makeTree(usages, stacks, true);
    expect(childrenOf(inverted, ROOT)).toEqual(['b 2560', 'none 2048', 'a 1024', 'main 512']);
    expect(inverted.bytes[ROOT]).toBe(6144);
  });

  it('adds up what is searched for', () => {
    const found = makeTree(usages, stacks, false, new Map([[1, 2048]]));
    expect(found.matched[ROOT]).toBe(2048);
    expect(found.matched[found.endOf(1)!]).toBe(2048);
    expect(found.matched[found.endOf(0)!]).toBe(0);
  });

  it('finds the same node in the tree of another moment', () => {
    const later = makeTree(usages.filter((usage) => usage.stack !== 1), stacks, false);
    expect(sameNode(tree, tree.endOf(0)!, later)).toBe(later.endOf(0));
    expect(name(later, sameNode(tree, tree.endOf(1)!, later))).toBe('main');
    expect(pathTo(tree, tree.endOf(0)!).map((node) => name(tree, node))).toEqual(['all', 'main', 'a']);
  });

  it('of nothing is a root', () => {
    const empty = makeTree([], stacks, false);
    expect([empty.count, empty.bytes[ROOT], empty.children.length]).toEqual([1, 0, 0]);
    expect(boxesOf(empty, ROOT, 100)).toHaveLength(1);
  });
});

describe('boxes', () => {
  const tree = makeTree(usages, stacks, false);
  const words = (zoomed: number): string[] =>
    boxesOf(tree, zoomed, 600).map((box) => `${box.depth} ${name(tree, box.node)} ${Math.round(box.x)}+${Math.round(box.width)}`);

  it('are as wide as their bytes', () => {
    expect(words(ROOT)).toEqual(['0 all 0+600', '1 main 0+400', '1 none 400+200', '2 b 0+250', '2 a 250+100']);
  });

  it('of a zoomed node take the whole width', () => {
    expect(words(tree.endOf(0)!)).toEqual(['0 all 0+600', '1 main 0+600', '2 a 0+600']);
  });

  it('narrower than a pixel are one', () => {
    const many: Usage[] = [
      { stack: 0, bytes: 1e6, blocks: 1, largest: 1 },
      { stack: 1, bytes: 900, blocks: 1, largest: 1 },
      { stack: 2, bytes: 800, blocks: 1, largest: 1 },
    ];
    const flat = { ...stacks, frameIdsOf: (stack: number) => Uint32Array.of(stack) };
    const narrow = boxesOf(makeTree(many, flat, false), ROOT, 1000);
    expect(narrow.map((box) => [box.depth, box.merged])).toEqual([[0, 0], [1, 0], [1, 2]]);
    expect(narrow[2]!.node).toBe(ROOT);
    expect(narrow[2]!.x + narrow[2]!.width).toBeCloseTo(1000);
  });

  it('are found by place', () => {
    const boxes = boxesOf(tree, ROOT, 600);
    expect(name(tree, boxAt(boxes, 260, 2)!.node)).toBe('a');
    expect(boxAt(boxes, 599, 2)).toBeNull();
  });

  it('are walked with the keys', () => {
    const boxes = boxesOf(tree, ROOT, 600);
    const walk = (from: number, way: Parameters<typeof boxBeside>[2]): string =>
      name(tree, boxBeside(boxes, boxes[from]!, way)!.node);
    expect(walk(0, 'inward')).toBe('main');
    expect(walk(1, 'inward')).toBe('b');
    expect(walk(1, 'right')).toBe('none');
    expect(walk(2, 'right')).toBe('none');
    expect(walk(2, 'inward')).toBe('none');
    expect(walk(4, 'outward')).toBe('main');
    expect(walk(4, 'left')).toBe('b');
    expect(walk(3, 'last')).toBe('a');
    expect(walk(0, 'outward')).toBe('all');
    expect(boxBeside(boxes, null, 'left')).toBe(boxes[0]);
    expect(boxBeside([], null, 'left')).toBeNull();
  });
});
