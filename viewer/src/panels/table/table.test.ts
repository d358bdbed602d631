import { describe, expect, it } from 'vitest';
import { groupRows, usageByStack } from '../../data/groups';
import { sampleRun } from '../../testing/model';
import { detailLines, frameText } from './detail';
import { Offsets } from './window';

describe('the rows that can be seen', () => {
  const offsets = new Offsets([10, 10, 100, 10, 10]);

  it('are found by height', () => {
    expect(offsets.total).toBe(140);
    expect([0, 9, 10, 25, 119, 120, 139, 500, -5].map((y) => offsets.at(y))).toEqual([0, 0, 1, 2, 2, 3, 4, 4, 0]);
    expect(offsets.seen(25, 10, 0)).toEqual([2, 3]);
    expect(offsets.seen(15, 10, 1)).toEqual([0, 4]);
    expect(new Offsets([]).seen(0, 100)).toEqual([0, 0]);
  });

  it('are scrolled to no further than needed', () => {
    expect(offsets.scrollTo(0, 50, 60)).toBe(0);
    expect(offsets.scrollTo(4, 0, 60)).toBe(80);
    expect(offsets.scrollTo(3, 100, 60)).toBe(100);
    expect(offsets.scrollTo(2, 0, 60)).toBe(20);
  });

  it('are few, of however many', () => {
    const many = new Offsets(Array.from({ length: 50000 }, () => 28));
    const [first, end] = many.seen(700000, 600);
    expect(end - first).toBeLessThan(40);
    expect(many.top(first)).toBeLessThanOrEqual(700000);
  });
});

describe('an opened row', () => {
  const inner = { functionName: 'empty', file: '/lib/torch/x.py', line: 3 };
  const mine = { functionName: 'step', file: '/me/train.py', line: 20 };
  const run = sampleRun({
    lastInstant: 1,
    blocks: [{ begin: 0, size: 2048, stack: 0 }, { begin: 0, size: 512, stack: 1 }, { begin: 0, size: 512 }],
    stacks: [{ frames: [inner, mine], where: 1 }, { frames: [mine], where: 0 }],
  });
  const usages = usageByStack(run.devices[0]!, run.stacks, 'cursor', 0);

  it('of one stack is all of its frames, the innermost first', () => {
    const rows = groupRows(usages, run.stacks, 'stack');
    expect(detailLines(rows[0]!, run.stacks, null)).toEqual([
      { kind: 'frame', text: '/lib/torch/x.py:3 empty', isWhere: false },
      { kind: 'frame', text: '/me/train.py:20 step', isWhere: true },
    ]);
    const none = rows.find((row) => row.where === 'no stack was recorded')!;
    expect(detailLines(none, run.stacks, null)).toEqual([{ kind: 'note', text: 'no stack was recorded' }]);
  });

  it('of several lists them, and opens the one that is highlighted', () => {
    const row = groupRows(usages, run.stacks, 'where')[0]!;
    expect(row.usages).toHaveLength(2);
    expect(detailLines(row, run.stacks, 1).map((line) => line.kind)).toEqual(['note', 'stack', 'stack', 'frame']);
    expect(detailLines(row, run.stacks, null).map((line) => line.kind)).toEqual(['note', 'stack', 'frame', 'frame', 'stack']);
  });

  it('names frames in full', () => {
    expect(frameText({ functionName: '', file: '', line: 0 })).toBe('unknown');
    expect(frameText({ functionName: 'f', file: '??', line: 0 })).toBe('?? f');
  });
});
