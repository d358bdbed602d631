// Stacks of a run: small numbers that stand for lists of frames.

import { NONE } from './columns';
import type { Frame, Stacks } from './model';

export interface StackColumns {
  readonly strings: readonly string[];
  readonly functionName: Uint32Array;
  readonly file: Uint32Array;
  readonly line: Uint32Array;
  readonly users: Uint8Array; // of frames: 1 outside libraries and the interpreter
  readonly first: Uint32Array;
  readonly frames: Uint32Array;
  readonly category: Uint8Array;
  readonly where: Uint32Array;
  readonly categories: readonly string[];
}

const NO_FRAME: Frame = { functionName: '', file: '', line: 0 };

export function baseName(file: string): string {
  return file.slice(Math.max(file.lastIndexOf('/'), file.lastIndexOf('\\')) + 1);
}

export function frameLabel(frame: Frame): string {
  const place = frame.file === '' ? '' : baseName(frame.file) + (frame.line > 0 ? `:${frame.line}` : '');
  return [place, frame.functionName].filter((part) => part !== '').join(' ') || 'unknown';
}

export function makeStacks(columns: StackColumns): Stacks {
  const count = Math.max(0, columns.first.length - 1);
  const unknown = Math.max(0, columns.categories.indexOf('unknown'));
  const made = new Map<number, Frame>();

  const frame = (id: number): Frame => {
    let known = made.get(id);
    if (known === undefined) {
      known =
        id < columns.line.length
          ? {
              functionName: columns.strings[columns.functionName[id]!] ?? '',
              file: columns.strings[columns.file[id]!] ?? '',
              line: columns.line[id]!,
            }
          : NO_FRAME;
      made.set(id, known);
    }
    return known;
  };
  const frameIdsOf = (stack: number): Uint32Array =>
    stack < count ? columns.frames.subarray(columns.first[stack]!, columns.first[stack + 1]!) : columns.frames.subarray(0, 0);
  const whereOf = (stack: number): Frame | null => {
    const ids = frameIdsOf(stack);
    if (ids.length === 0) return null;
    const place = columns.where[stack]!;
    return frame(ids[place < ids.length ? place : 0]!);
  };

  let short: Stacks | null = null;
  const stacks: Stacks = {
    count,
    categories: columns.categories,
    usersOnly: () => (short ??= withFrames(stacks, (stack) => usersOf(columns.users, frameIdsOf(stack)))),
    frame,
    frameIdsOf,
    whereOf,
    framesOf: (stack) => Array.from(frameIdsOf(stack), frame),
    categoryOf: (stack) => (stack < count ? columns.category[stack]! : unknown),
    labelOf(stack) {
      if (stack === NONE) return 'no stack was recorded';
      const where = whereOf(stack);
      return where === null ? 'no frame was recorded' : frameLabel(where);
    },
  };
  return stacks;
}

function usersOf(users: Uint8Array, ids: Uint32Array): Uint32Array {
  const kept = ids.filter((id) => users[id] === 1);
  return kept.length > 0 ? kept : ids;
}

/** Where a stack is from, and what it is called, does not change with the frames that are shown. */
function withFrames(stacks: Stacks, frameIdsOf: (stack: number) => Uint32Array): Stacks {
  const made = new Map<number, Uint32Array>();
  const kept = (stack: number): Uint32Array => {
    const known = made.get(stack) ?? frameIdsOf(stack);
    made.set(stack, known);
    return known;
  };
  const short: Stacks = { ...stacks, frameIdsOf: kept, framesOf: (stack) => Array.from(kept(stack), stacks.frame), usersOnly: () => short };
  return short;
}
