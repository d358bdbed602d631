// Models for tests, from a few words.

import { Highest, liveLine } from '../data/live';
import { NONE, type Device, type Frame, type Model, type Run } from '../data/model';
import type { Mark, StatsReport } from '../data/header';
import { makeStacks } from '../data/stacks';
import type { App } from '../app/panel';
import { Store, type State } from '../app/state';

export interface SampleBlock {
  begin: number;
  end?: number;
  freed?: number;
  size: number;
  address?: number;
  stack?: number;
  stream?: number;
}

export interface SamplePiece {
  begin?: number;
  end?: number;
  address: number;
  size: number;
  segment?: number;
  stream?: number;
  pool?: number;
  isExpandable?: boolean;
}

export interface SampleStack {
  category?: string;
  frames: Frame[]; // innermost first
  where?: number; // place in it
  library?: number[]; // places of frames that are of a library
}

export interface Sample {
  lastInstant: number;
  blocks: SampleBlock[]; // by rising begin
  pieces?: SamplePiece[];
  stacks?: SampleStack[];
  reserved?: [instant: number, bytes: number][];
  stepEnds?: number[];
  marks?: Mark[];
  limitBytes?: number;
}

const CATEGORIES = ['weights', 'optimizer', 'gradients', 'activations', 'backward', 'kv-cache', 'data', 'loaded', 'workspace', 'other', 'unknown'];

/** The largest L such that a multiple of 2^L is in [begin, end). */
export function levelOf(begin: number, end: number): number {
  let level = 0;
  while (level < 31 && Math.ceil(begin / 2 ** (level + 1)) * 2 ** (level + 1) < end) level++;
  return level;
}

export function sampleDevice(sample: Sample): Device {
  const { blocks, pieces = [], lastInstant } = sample;
  const u32 = (values: number[]): Uint32Array => Uint32Array.from(values);
  const f64 = (values: number[]): Float64Array => Float64Array.from(values);
  const live = { begin: u32(blocks.map((b) => b.begin)), end: u32(blocks.map((b) => b.end ?? NONE)) };
  const columns = {
    count: blocks.length,
    ...live,
    freed: u32(blocks.map((b) => b.freed ?? b.end ?? NONE)),
    size: f64(blocks.map((b) => b.size)),
    address: f64(blocks.map((b) => b.address ?? 0)),
    stack: u32(blocks.map((b) => b.stack ?? NONE)),
    stream: Uint16Array.from(blocks.map((b) => b.stream ?? 0)),
    level: Uint8Array.from(blocks.map((b) => levelOf(b.begin, b.end ?? lastInstant + 1))),
  };
  const line = liveLine(columns, lastInstant);
  const peak = line.reduce((best, value, i) => (value > line[best]! ? i : best), 0);
  const reserved = sample.reserved ?? [];
  const highestReserved = Math.max(0, ...reserved.map(([, value]) => value));
  return {
    header: {
      device: 0,
      has_trace: lastInstant > 0,
      event_count: lastInstant,
      block_count: blocks.length,
      piece_count: pieces.length,
      first_time_us: null,
      time_every: null,
      is_reserved_known: reserved.length > 0,
      is_truncated: false,
      has_addresses: true,
      peak_live_bytes: line[peak]!,
      peak_instant: peak,
      peak_reserved_bytes: reserved.length > 0 ? highestReserved : null,
      peak_reserved_instant: reserved.find(([, value]) => value === highestReserved)?.[0] ?? null,
      limit_bytes: sample.limitBytes ?? null,
      limit_text: null,
      streams: ['0x0', '0x10'],
      pools: ['default', '(0, 1)'],
      steps_basis: sample.stepEnds ? 'annotations' : null,
      marks: sample.marks ?? [],
      mark_count: sample.marks?.length ?? 0,
      what_if: [],
      what_if_left_out: [],
      what_if_reason: 'not asked for',
      growth_samples: 0,
      growth_stacks: 0,
      growth_reason: 'no steps were found',
    },
    name: 'GPU 0',
    lastInstant,
    blocks: columns,
    pieces: {
      count: pieces.length,
      begin: u32(pieces.map((p) => p.begin ?? 0)),
      end: u32(pieces.map((p) => p.end ?? NONE)),
      address: f64(pieces.map((p) => p.address)),
      size: f64(pieces.map((p) => p.size)),
      segment: u32(pieces.map((p, i) => p.segment ?? i)),
      stream: Uint16Array.from(pieces.map((p) => p.stream ?? 0)),
      pool: Uint16Array.from(pieces.map((p) => p.pool ?? 0)),
      expandable: Uint8Array.from(pieces.map((p) => (p.isExpandable ? 1 : 0))),
    },
    reserved: { instant: u32(reserved.map(([at]) => at)), bytes: f64(reserved.map(([, value]) => value)) },
    timeUs: new Float64Array(0),
    stepEnds: u32(sample.stepEnds ?? []),
    phaseEnds: u32([]),
    marks: sample.marks ?? [],
    whatIf: [],
    growth: { step: u32([]), instant: u32([]), stack: u32([]), bytesPerStep: f64([]), bytes: f64([]), reason: 'no steps were found' },
  };
}

export function sampleStats(): StatsReport {
  return { conf: '', oldest_version: null, newest_version: null, settings: {}, devices: [], warnings: [] };
}

export function sampleRun(sample: Sample): Run {
  const stacks = sample.stacks ?? [];
  const strings: string[] = [];
  const text = (value: string): number => (strings.includes(value) ? strings.indexOf(value) : strings.push(value) - 1);
  const frames = stacks.flatMap((stack) => stack.frames);
  const first = [0];
  for (const stack of stacks) first.push(first[first.length - 1]! + stack.frames.length);
  return {
    file: 'sample.pickle',
    stats: sampleStats(),
    doctor: null,
    doctorReason: 'not asked for',
    stacks: makeStacks({
      functionName: Uint32Array.from(frames.map((frame) => text(frame.functionName))),
      file: Uint32Array.from(frames.map((frame) => text(frame.file))),
      line: Uint32Array.from(frames.map((frame) => frame.line)),
      users: Uint8Array.from(stacks.flatMap((stack) => stack.frames.map((_, i) => Number(!(stack.library ?? []).includes(i))))),
      first: Uint32Array.from(first),
      frames: Uint32Array.from(frames.map((_, i) => i)),
      category: Uint8Array.from(stacks.map((stack) => CATEGORIES.indexOf(stack.category ?? 'other'))),
      where: Uint32Array.from(stacks.map((stack) => stack.where ?? NONE)),
      categories: CATEGORIES,
      strings,
    }),
    devices: [sampleDevice(sample)],
    busiest: 0,
  };
}

export function sampleModel(...samples: Sample[]): Model {
  return { vramwise: '0.0.0', runs: samples.map(sampleRun), diff: null };
}

export function sampleState(model: Model, change: Partial<State> = {}): State {
  const device = model.runs[0]?.devices[0];
  return {
    tab: 'timeline',
    run: 0,
    device: 0,
    from: 0,
    to: device?.lastInstant ?? 0,
    cursor: device?.header.peak_instant ?? 0,
    pinned: null,
    stack: null,
    colour: 'stack',
    search: '',
    frames: 'all',
    theme: 'light',
    ...change,
  };
}

export function sampleApp(model: Model, change: Partial<State> = {}): App & { said: string[] } {
  const store = new Store(sampleState(model, change));
  const said: string[] = [];
  const run = (): Run => model.runs[store.state.run]!;
  const lines = new Map<Device, Float64Array>();
  const liveOf = (device: Device): Float64Array => {
    if (!lines.has(device)) lines.set(device, liveLine(device.blocks, device.lastInstant));
    return lines.get(device)!;
  };
  return {
    model,
    store,
    run,
    device: () => run().devices[store.state.device]!,
    stacks: () => (store.state.frames === 'own' ? run().stacks.usersOnly() : run().stacks),
    liveOf,
    highestLiveOf: (device) => new Highest(liveOf(device)),
    say: (text) => said.push(text),
    said,
  };
}
