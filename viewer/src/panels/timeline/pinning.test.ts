import { expect, it } from 'vitest';
import { sampleDevice } from '../../testing/model';
import { blockByKey } from './pinning';

const device = sampleDevice({
  lastInstant: 6,
  blocks: [{ begin: 0, size: 512 }, { begin: 1, size: 4096 }, { begin: 2, end: 4, size: 1024 }],
});

it('the first key pins the largest block at the cursor', () => {
  expect(blockByKey(device, 3, null, 'largest')).toBe(1);
  expect(blockByKey(device, 3, null, 'above')).toBe(1);
  expect(blockByKey(device, 0, null, 'largest')).toBe(0);
});

it('others go up and down the stack of blocks, and stay at its ends', () => {
  expect(blockByKey(device, 3, 1, 'above')).toBe(2);
  expect(blockByKey(device, 3, 2, 'above')).toBe(2);
  expect(blockByKey(device, 3, 1, 'below')).toBe(0);
  expect(blockByKey(device, 3, 0, 'below')).toBe(0);
  expect(blockByKey(device, 5, 2, 'below')).toBe(1); // what was pinned is not live there
});

it('nothing is pinned where nothing is live', () => {
  expect(blockByKey(sampleDevice({ lastInstant: 2, blocks: [{ begin: 1, size: 512 }] }), 0, null, 'largest')).toBeNull();
});
