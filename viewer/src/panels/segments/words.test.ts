import { describe, expect, it } from 'vitest';
import { sampleRun } from '../../testing/model';
import { layoutAt } from './layout';
import { pinningWords, rangeWords } from './words';

const frame = { functionName: 'step', file: '/me/train.py', line: 7 };
const run = sampleRun({
  lastInstant: 9,
  blocks: [
    { begin: 1, size: 1024, address: 4096, stack: 0 },
    { begin: 2, freed: 3, end: 6, size: 512, address: 8192 },
    { begin: 2, size: 512, address: 102400 },
  ],
  pieces: [
    { address: 4096, size: 8192 },
    { address: 100000, size: 1000, segment: 9, isExpandable: true },
    { address: 102400, size: 2048, segment: 9, isExpandable: true },
  ],
  stacks: [{ category: 'weights', frames: [frame] }],
});
const device = run.devices[0]!, layout = layoutAt(device, 4);
const words = (range: number): string[] => rangeWords(device, run.stacks, layout, range);

describe('the words', () => {
  it('of a block name its size, place, stack and life', () => {
    expect(words(0)).toEqual(['1.00 KiB at 0x1000', 'train.py:7 step', 'weights, stream 0x0', 'from event 0, lives to the end']);
    expect(words(2)).toContain('freed at event 2: waits for other streams');
    expect(words(2)).toContain('from event 1, until event 5');
  });

  it('of an idle range name what pins it', () => {
    expect(words(1)).toEqual([
      '3.00 KiB at 0x1400: idle',
      '2 blocks with 1.50 KiB keep 6.50 KiB idle: a segment is given back only as a whole.',
      '1.00 KiB  train.py:7 step',
      '512 B  no stack was recorded',
    ]);
  });

  it('of a gap and of an expandable segment tell the difference', () => {
    expect(words(5)[0]).toContain('not mapped');
    expect(words(7)[1]).toContain('expandable');
    expect(words(4)[1]).toContain('No block is beside it');
  });

  it('of an empty segment say so', () => {
    expect(pinningWords({ segment: 0, blocks: [], liveBytes: 0, idleBytes: 5, isByNeighbours: false })).toContain('can give it back');
  });
});
