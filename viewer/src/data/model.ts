// A recording as the page sees it: typed arrays, looked up by number. Made once by container.ts and
// never changed.

import type { DeviceHeader, DiffReport, DoctorReport, Mark, RanksReport, StatsReport, WhatIfHeader } from './header';

export { NONE } from './columns';

/** Lifetimes, by rising begin. Instant k is the moment after the first k events. */
export interface Blocks {
  readonly count: number;
  readonly begin: Uint32Array;
  readonly freed: Uint32Array; // the free was requested; NONE: never
  readonly end: Uint32Array; // NONE: live to the end
  readonly size: Float64Array;
  readonly address: Float64Array;
  readonly stack: Uint32Array; // NONE: none was captured
  readonly stream: Uint16Array;
  readonly level: Uint8Array; // the largest L such that it is live at a multiple of 2^L
}

/** Ranges of addresses held from the device. */
export interface Pieces {
  readonly count: number;
  readonly begin: Uint32Array;
  readonly end: Uint32Array;
  readonly address: Float64Array;
  readonly size: Float64Array;
  readonly segment: Uint32Array;
  readonly stream: Uint16Array;
  readonly pool: Uint16Array; // 0xFFFF: not known
  readonly expandable: Uint8Array;
}

/** A step function: from instant[i] on it is bytes[i]. */
export interface Line {
  readonly instant: Uint32Array;
  readonly bytes: Float64Array;
}

export interface WhatIf extends WhatIfHeader {
  readonly line: Line;
}

export interface Growth {
  readonly step: Uint32Array; // of each sample: the number of the step
  readonly instant: Uint32Array; // and where it ends
  readonly stack: Uint32Array;
  readonly bytesPerStep: Float64Array; // of each stack, by the doctor; 0: it does not leak
  readonly bytes: Float64Array; // [stack * sampleCount + sample]
  readonly reason: string | null; // why there is none
}

export interface Device {
  readonly header: DeviceHeader;
  readonly name: string; // "GPU 0", "pinned host memory"
  readonly lastInstant: number;
  readonly blocks: Blocks;
  readonly pieces: Pieces;
  readonly reserved: Line; // empty where not known
  readonly timeUs: Float64Array; // since first_time_us, at instants 0, time_every, ...
  readonly stepEnds: Uint32Array;
  readonly phaseEnds: Uint32Array;
  readonly marks: readonly Mark[];
  readonly whatIf: readonly WhatIf[];
  readonly growth: Growth;
}

export interface Frame {
  readonly functionName: string;
  readonly file: string;
  readonly line: number; // 0: none
}

export interface Stacks {
  readonly count: number;
  readonly categories: readonly string[];
  /** Innermost first. NONE, and a number that is none, have no frames. */
  framesOf(stack: number): Frame[];
  /** Numbers of frames, for grouping; innermost first. */
  frameIdsOf(stack: number): Uint32Array;
  frame(id: number): Frame;
  /** The same stacks without the frames of libraries and of the interpreter; a stack that has no others keeps them. Made once. */
  usersOnly(): Stacks;
  /** The innermost frame outside libraries, else the innermost, else null. */
  whereOf(stack: number): Frame | null;
  /** In `categories`; of NONE that of "unknown". */
  categoryOf(stack: number): number;
  /** One line for people: "train.py:152 main". */
  labelOf(stack: number): string;
}

export interface Run {
  readonly file: string;
  readonly stats: StatsReport;
  readonly doctor: DoctorReport | null;
  readonly doctorReason: string | null;
  readonly stacks: Stacks;
  readonly devices: readonly Device[];
  readonly busiest: number; // index in devices; 0 where there is none
}

export interface Model {
  readonly vramwise: string; // version
  readonly runs: readonly Run[]; // one, or two to compare
  readonly diff: DiffReport | null;
  readonly diffReason?: string | null; // why two runs were not compared
  readonly ranks?: RanksReport | null; // a page of ranks: then there are no runs
}
