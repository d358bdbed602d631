import { expect, it } from 'vitest';
import { sampleRun } from '../testing/model';
import { groupRows, usageByStack, type Grouping } from './groups';
import { insideOf } from './inside';

const frame = (file: string, line: number, functionName: string) => ({ file: `/lib/${file}`, line, functionName });
const step = frame('train.py', 50, 'step'), linear = frame('linear.py', 9, 'forward'), call = frame('module.py', 7, '_call');
const mlp = frame('model.py', 40, 'mlp'), norm = frame('norm.py', 3, 'forward');

/** By the largest first, of stacks with these frames; the last one is the line of the program. */
function insides(stacks: ReturnType<typeof frame>[][], grouping: Grouping = 'stack'): string[] {
  const run = sampleRun({
    lastInstant: 1,
    blocks: stacks.map((_, i) => ({ begin: 0, size: 1024 * (stacks.length - i), stack: i })),
    stacks: stacks.map((frames) => ({ frames, where: frames.length - 1 })),
  });
  const rows = groupRows(usageByStack(run.devices[0]!, run.stacks, 'cursor', 0), run.stacks, grouping);
  const inside = insideOf(rows, run.stacks, grouping);
  return rows.map((row) => inside.get(row.key) ?? '');
}

it('a row names its innermost frame, where that is another than its line', () => {
  expect(insides([[linear, call, step], [norm, call, step], [step]])).toEqual(['in linear.py:9 forward', 'in norm.py:3 forward', '']);
});

it('rows of the same innermost frame name the frame in which they differ', () => {
  const attention = frame('model.py', 20, 'attention');
  expect(insides([[linear, call, mlp, call, step], [linear, call, attention, call, step], [norm, call, step]])).toEqual([
    'in linear.py:9 forward, from model.py:40 mlp',
    'in linear.py:9 forward, from model.py:20 attention',
    'in norm.py:3 forward',
  ]);
});

it('of several that differ in several places, each has its own', () => {
  const first = frame('model.py', 90, 'block'), second = frame('model.py', 91, 'block');
  expect(insides([[linear, call, step], [linear, mlp, first, step], [linear, mlp, second, step]])).toEqual([
    'in linear.py:9 forward, from module.py:7 _call',
    'in linear.py:9 forward, from model.py:90 block',
    'in linear.py:9 forward, from model.py:91 block',
  ]);
});

it('a line that is called from two places is told apart by them', () => {
  const run = sampleRun({
    lastInstant: 1,
    blocks: [{ begin: 0, size: 2048, stack: 0 }, { begin: 0, size: 1024, stack: 1 }],
    stacks: [{ frames: [mlp, step], where: 0 }, { frames: [mlp, frame('train.py', 60, 'evaluate')], where: 0 }],
  });
  const rows = groupRows(usageByStack(run.devices[0]!, run.stacks, 'cursor', 0), run.stacks, 'stack');
  expect([...insideOf(rows, run.stacks, 'stack').values()]).toEqual(['from train.py:50 step', 'from train.py:60 evaluate']);
});

it('rows of several stacks, and the same frames twice, have nothing to tell', () => {
  expect(insides([[linear, step], [norm, step]], 'where')).toEqual(['']);
  expect(insides([[linear, step], [linear, step]])).toEqual(['in linear.py:9 forward', 'in linear.py:9 forward']);
});

it('many stacks that differ in their last frame are no trouble', () => {
  const rows = Array.from({ length: 200_000 }, (_, i) => ({
    key: String(i), bytes: 1, blocks: 1, largest: 1, category: 'other', where: 'a', file: '', usages: [{ stack: i, bytes: 1, blocks: 1, largest: 1 }],
  }));
  const { stacks } = sampleRun({ lastInstant: 1, blocks: [], stacks: [{ frames: [linear, call, step] }] });
  const many = { ...stacks, frame: (id: number) => frame('x.py', id, 'f'), frameIdsOf: (stack: number) => Uint32Array.of(0, 1, stack) };
  const inside = insideOf(rows, many, 'stack');
  expect([inside.get('7'), inside.get('199999')]).toEqual(['in x.py f, from x.py:7 f', 'in x.py f, from x.py:199999 f']);
});
