import { describe, expect, it } from 'vitest';
import type { DiffChange, DiffReport } from '../../data/header';
import { NONE } from '../../data/model';
import { parseSearch } from '../../data/search';
import { bytes } from '../../look/units';
import { sampleModel } from '../../testing/model';
import { categoryRows, differenceText, isFound, isOnSide, sortRows, lineRows } from './changes';

const frame = (file: string, line: number, functionName: string) => ({ file, line, functionName });
const side = { file: 'a', device: 0, conf: '', events: 1, peak_event: 0, peak_live_bytes: 1, peak_blocks: 1, peak_reserved_bytes: null };
const change = (before: number, after: number, frames: string[], category = 'other'): DiffChange => ({
  category, before_bytes: before, after_bytes: after, before_blocks: 1, after_blocks: 2, where: frames[frames.length - 1] ?? null, frames,
  before_where: frames[frames.length - 1] ?? null, after_where: frames[frames.length - 1] ?? null, stacks: 1,
});
const report: DiffReport = {
  same: false,
  before: side,
  after: side,
  categories: [{ category: 'activations', before_bytes: 5, after_bytes: 9, before_blocks: 1, after_blocks: 1 }],
  change_count: 4,
  changes: [
    change(0, 400, ['lib.py:2 g', 'train.py:1 f'], 'activations'),
    change(900, 100, ['train.py:1 f']),
    change(30, 20, []),
    change(1, 2, ['gone.py:9 h']),
  ],
  renames: [],
  notes: [],
};
const model = sampleModel(
  { lastInstant: 1, blocks: [], stacks: [{ frames: [frame('train.py', 1, 'f')] }] },
  {
    lastInstant: 1,
    blocks: [],
    stacks: [
      { frames: [frame('train.py', 1, 'f')] },
      { frames: [frame('lib.py', 2, 'g'), frame('train.py', 1, 'f')], category: 'weights' },
      { frames: [frame('lib.py', 2, 'g'), frame('train.py', 1, 'f')], category: 'activations' },
    ],
  },
);
const rows = lineRows(report, model);

describe('the rows of a comparison', () => {
  it('know their stack in the run that has more of it', () => {
    expect(rows.map((row) => row.place)).toEqual([{ run: 1, stack: 2 }, { run: 0, stack: 0 }, { run: 0, stack: NONE }, null]);
    expect(rows[0]).toMatchObject({ label: 'train.py:1 f', detail: 'activations, lib.py:2 g' });
    expect(rows[2]!.label).toBe('no Python frame');
    expect(categoryRows(report)).toMatchObject([{ label: 'activations', before: 5, after: 9, place: null }]);
  });

  it('do not know their stack where the report had no room for its frames', () => {
    const placeOf = (frames: string[]): unknown => lineRows({ ...report, changes: [{ ...change(900, 100, frames), frames_left_out: 5 }] }, model)[0]!.place;
    expect(placeOf([])).toBeNull();
    expect(placeOf(['train.py:1 f'])).toBeNull();
  });

  it('say how many stacks they are, and where they were before', () => {
    const moved = { ...change(1, 2, ['lib.py:2 g', 'train.py:1 f'], 'weights'), before_where: 'old.py:7 f', stacks: 2 };
    const gone = { ...change(1, 0, ['train.py:1 f']), after_where: null, stacks: 1200 };
    const [one, other] = lineRows({ ...report, changes: [moved, gone] }, model);
    expect(one).toMatchObject({ label: 'train.py:1 f', detail: 'weights, lib.py:2 g, and 1 more stack, was old.py:7 f' });
    expect(other).toMatchObject({ label: 'train.py:1 f', detail: 'other, and 1,199 more stacks' });
    const found = (text: string): boolean => isFound(one!, parseSearch(text), text, model);
    expect([found('old.py'), found('lib.py'), found('new.py')]).toEqual([true, true, false]);
  });

  it('sort by the size of the change, or by the change', () => {
    const differences = (isFalling: boolean): number[] => sortRows(rows, 'difference', isFalling).map((row) => row.after - row.before);
    expect(differences(true)).toEqual([-800, 400, -10, 1]);
    expect(differences(false)).toEqual([-800, -10, 1, 400]);
    expect(sortRows(rows, 'after', true).map((row) => row.after)).toEqual([400, 100, 20, 2]);
  });

  it('are chosen by side and by search', () => {
    expect(rows.filter((row) => isOnSide(row, 'grew'))).toHaveLength(2);
    expect(rows.filter((row) => isOnSide(row, 'shrank'))).toHaveLength(2);
    const found = (text: string): number => rows.filter((row) => isFound(row, parseSearch(text), text, model)).length;
    expect([found('lib.py'), found('train.py'), found('GONE.py'), found('')]).toEqual([1, 2, 1, 4]);
  });

  it('write differences with their sign', () => {
    expect([0, 2048, -2048].map((value) => differenceText(value, bytes))).toEqual(['0', '+2.00 KiB', '-2.00 KiB']);
  });
});
