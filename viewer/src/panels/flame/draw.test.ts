// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';
import { usageByStack } from '../../data/groups';
import { parseSearch } from '../../data/search';
import { svg } from '../../look/h';
import { SvgPen } from '../../look/pen';
import { sampleRun } from '../../testing/model';
import { boxesOf } from './boxes';
import { drawFlame, nodeLabel, ROW } from './draw';
import { fileColours } from './files';
import { makeTree, ROOT } from './tree';

const run = sampleRun({
  lastInstant: 1,
  blocks: [{ begin: 0, size: 3072, stack: 0 }, { begin: 0, size: 1024 }],
  stacks: [{ frames: [{ functionName: 'inner', file: 'a.py', line: 2 }, { functionName: 'outer', file: 'b.py', line: 1 }] }],
});
const usages = usageByStack(run.devices[0]!, run.stacks, 'cursor', 0), tree = makeTree(usages, run.stacks, false, new Map([[0, 3072]]));

function drawn(text: string, top = 0, height = 1000): SVGSVGElement {
  const parent = svg('svg');
  drawFlame(
    new SvgPen(parent),
    {
      tree, stacks: run.stacks, boxes: boxesOf(tree, ROOT, 800), colour: 'file', files: fileColours(run.stacks, usages),
      search: parseSearch(text), path: new Set(), focused: null, hovered: null,
    },
    top,
    height,
  );
  return parent;
}

describe('a drawn flame graph', () => {
  const texts = (parent: SVGSVGElement): string[] => [...parent.querySelectorAll('text')].map((one) => one.textContent!);

  it('names every box, and those without a stack honestly', () => {
    expect(texts(drawn(''))).toEqual(['all: 4.00 KiB', 'b.py:1 outer  3.00 KiB', 'no stack was recorded', 'a.py:2 inner  3.00 KiB']);
    expect(nodeLabel(tree, run.stacks, tree.endOf(0)!)).toBe('a.py:2 inner');
  });

  it('frames what the search finds', () => {
    expect(drawn('').querySelectorAll('[fill=none]')).toHaveLength(0);
    expect(drawn('inner').querySelectorAll('[fill=none]')).toHaveLength(1);
  });

  it('leaves out what cannot be seen', () => {
    expect(texts(drawn('', 2 * ROW + 1, 10))).toEqual(['a.py:2 inner  3.00 KiB']);
  });
});
