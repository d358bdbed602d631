import { expect, it } from 'vitest';
import { usageByStack } from '../../data/groups';
import { DISTINCT } from '../../look/palette';
import { sampleRun } from '../../testing/model';
import { fileColours } from './files';

it('files have colours by their bytes, and each file of the run has one', () => {
  const frame = (file: string) => ({ file, functionName: 'f', line: 1 });
  const run = sampleRun({
    lastInstant: 1,
    blocks: [{ begin: 0, size: 512, stack: 0 }, { begin: 0, size: 2048, stack: 1 }],
    stacks: [{ frames: [frame('a'), frame('c'), frame('a')] }, { frames: [frame('b'), frame('c')] }, { frames: [frame('late')] }],
  });
  const colours = fileColours(run.stacks, usageByStack(run.devices[0]!, run.stacks, 'cursor', 1));
  expect([...colours]).toEqual([['c', DISTINCT[0]], ['b', DISTINCT[1]], ['a', DISTINCT[2]], ['late', DISTINCT[3]]]);
});
