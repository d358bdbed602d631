// Small recordings, written as PyTorch's snapshots in JSON: for what no recording of tests/data shows.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { PAGES } from './places.mjs';

const MIB = 1 << 20;
const SEGMENT_BYTES = 20 * MIB;
const FIRST_ADDRESS = 0x7f0000000000;

export const frame = (name, filename, line) => ({ name, filename, line });

/** One device's trace: blocks of `sizes` in segments of their own, allocated in turn; every one but
 * those in `kept` is freed at the end. `stackOf(i)` is the stack of block i. */
export function trace({ sizes, kept = [], stackOf = () => [], beginUs = 1_700_000_000_000_000 }) {
  const events = [];
  const put = (action, address, size, frames) =>
    events.push({ action, addr: address, size, stream: 0, frames, time_us: beginUs + events.length * 100 });
  const addressOf = (i) => FIRST_ADDRESS + i * SEGMENT_BYTES;
  sizes.forEach((size, i) => {
    put('segment_alloc', addressOf(i), SEGMENT_BYTES, stackOf(i));
    put('alloc', addressOf(i), size, stackOf(i));
  });
  sizes.forEach((size, i) => {
    if (kept.includes(i)) return;
    put('free_requested', addressOf(i), size, []);
    put('free_completed', addressOf(i), size, []);
  });
  return {
    events,
    segments: (device) =>
      sizes.map((size, i) => ({
        device,
        address: addressOf(i),
        total_size: SEGMENT_BYTES,
        allocated_size: kept.includes(i) ? size : 0,
        active_size: kept.includes(i) ? size : 0,
        requested_size: kept.includes(i) ? size : 0,
        stream: 0,
        segment_type: 'large',
        segment_pool_id: [0, 0],
        is_expandable: false,
        frames: stackOf(i),
        blocks: kept.includes(i)
          ? [
              { address: addressOf(i), size, requested_size: size, state: 'active_allocated', frames: stackOf(i) },
              { address: addressOf(i) + size, size: SEGMENT_BYTES - size, requested_size: 0, state: 'inactive', frames: [] },
            ]
          : [{ address: addressOf(i), size: SEGMENT_BYTES, requested_size: 0, state: 'inactive', frames: [] }],
      })),
  };
}

/** The traces of devices 0, 1, ... as one snapshot. */
export function snapshot(traces, more = {}) {
  return {
    segments: traces.flatMap((one, device) => one.segments(device)),
    device_traces: traces.map((one) => one.events),
    allocator_settings: { expandable_segments: false, max_split_size: -1 },
    external_annotations: [],
    ...more,
  };
}

/** Its path. `name` may be any that a file can have. */
export function writeRecording(name, content) {
  const folder = join(PAGES, `recordings-${threadId}`);
  mkdirSync(folder, { recursive: true });
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify(content));
  return path;
}
