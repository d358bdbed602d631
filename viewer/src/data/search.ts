// What the search field says. Words are looked for in functions and files ("train.py:152" finds the
// line), all of them must be found somewhere in a block's stack, and a size limits the block itself:
//
//   adam file:optim >100MiB -"no stack" category:weights 1MiB..2MiB
//
// A size alone is what is printed so: "1.5GiB" finds 1.45 to 1.55. A number without a unit is a word.
// What is not understood as one of these is a word: a search never fails.

import { NONE } from './columns';
import type { Blocks, Frame, Stacks } from './model';

type Field = 'any' | 'function' | 'file' | 'category';

interface Word {
  readonly field: Field;
  readonly text: string; // in lower case
}

/** What is kept of one run's stacks: a bit for each word that is found. */
interface Found {
  readonly ofFrame: Map<number, number>;
  readonly ofStack: Map<number, boolean>;
}

export interface Search {
  readonly words: readonly Word[];
  readonly wanted: number; // bits of words that must be found
  readonly unwanted: number; // and of those that must not
  readonly atLeast: number; // bytes, both are part of it
  readonly atMost: number;
  readonly found: WeakMap<Stacks, Found>;
}

const MOST_WORDS = 30; // they are bits

const UNITS: Readonly<Record<string, number>> = { '': 1, b: 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4 };
const FIELDS: Readonly<Record<string, Field>> = {
  function: 'function',
  func: 'function',
  fn: 'function',
  file: 'file',
  category: 'category',
  cat: 'category',
};

/** "100MiB", "1.5g", "512": bytes; null: not a size. Units are those of 1024, however they are spelled. */
export function parseSize(text: string): number | null {
  const parts = /^(\d+(?:\.\d+)?|\.\d+)\s*(?:([kmgt])(?:i?b)?|b|bytes?)?$/i.exec(text);
  if (parts === null) return null;
  return Math.round(Number(parts[1]) * UNITS[(parts[2] ?? '').toLowerCase()]!);
}

function printedSo(text: string): [atLeast: number, atMost: number] | null {
  const parts = /^\d+(?:\.(\d+))?([kmgt]i?b|[kmgt]|b)$/i.exec(text), size = parseSize(text);
  if (parts === null || size === null) return null;
  const unit = parseSize(`1${parts[2]!}`)!, half = unit === 1 ? 0 : (unit / 2) * 10 ** -(parts[1]?.length ?? 0);
  return [size - half, size + half];
}

/** The sizes that a part of the search lets through, or null where it is no size. */
function sizes(part: string): [atLeast: number, atMost: number] | null {
  const compared = /^(>=|<=|>|<|=)(.+)$/.exec(part);
  if (compared !== null) {
    const size = parseSize(compared[2]!);
    if (size === null) return null;
    switch (compared[1]) {
      case '>':
        return [size + 1, Infinity];
      case '>=':
        return [size, Infinity];
      case '<':
        return [0, size - 1];
      case '<=':
        return [0, size];
      default:
        return [size, size];
    }
  }
  const between = /^(.+?)\.\.(.+)$/.exec(part);
  if (between === null) return printedSo(part);
  const low = parseSize(between[1]!), high = parseSize(between[2]!);
  return low === null || high === null ? null : [low, high];
}

/** Apart at white space; what is between quotes stays together. */
function parts(text: string): string[] {
  // "> 100 MiB" is one part, however it is spaced.
  const joined = text
    .replace(/((?:^|\s)(?:[<>]=?|=))\s+(?=[\d.])/g, '$1')
    .replace(/((?:^|\s)(?:[<>]=?|=)?[\d.]+)\s+(?=[kmgt]i?b(?:\s|$))/gi, '$1');
  return joined.match(/(?:[^\s"]+|"[^"]*"?)+/g) ?? [];
}

function word(part: string): Word {
  const named = /^([a-z]+):(.+)$/i.exec(part);
  const field = named === null ? undefined : FIELDS[named[1]!.toLowerCase()];
  const text = field === undefined ? part : named![2]!;
  return { field: field ?? 'any', text: text.replace(/"/g, '').toLowerCase() };
}

/** null: nothing is searched for. */
export function parseSearch(text: string): Search | null {
  const words: Word[] = [];
  let wanted = 0, unwanted = 0, atLeast = 0, atMost = Infinity, isLimited = false;
  for (const part of parts(text)) {
    const range = sizes(part);
    if (range !== null) {
      atLeast = Math.max(atLeast, range[0]);
      atMost = Math.min(atMost, range[1]);
      isLimited = true;
      continue;
    }
    const isUnwanted = part.length > 1 && part.startsWith('-');
    const made = word(isUnwanted ? part.slice(1) : part);
    if (made.text === '' || words.length === MOST_WORDS) continue;
    if (isUnwanted) unwanted |= 1 << words.length;
    else wanted |= 1 << words.length;
    words.push(made);
  }
  if (words.length === 0 && !isLimited) return null;
  return { words, wanted, unwanted, atLeast, atMost, found: new WeakMap() };
}

/** Only sizes are asked for: stacks do not matter. */
export function isOnlySize(search: Search): boolean {
  return search.words.length === 0;
}

function bitsOfTexts(search: Search, functionName: string, file: string): number {
  let bits = 0;
  search.words.forEach(({ field, text }, i) => {
    const isIn =
      (field !== 'file' && field !== 'category' && functionName.includes(text)) ||
      (field !== 'function' && field !== 'category' && file.includes(text));
    if (isIn) bits |= 1 << i;
  });
  return bits;
}

function bitsOfFrame(search: Search, frame: Frame): number {
  const file = frame.file.toLowerCase();
  return bitsOfTexts(search, frame.functionName.toLowerCase(), frame.line > 0 ? `${file}:${frame.line}` : file);
}

function isStackFound(search: Search, stacks: Stacks, stack: number, found: Found): boolean {
  const category = stacks.categories[stacks.categoryOf(stack)] ?? '';
  const ids = stacks.frameIdsOf(stack);
  // A stack without frames is found by the words that stand in its place.
  let bits = ids.length === 0 ? bitsOfTexts(search, stacks.labelOf(stack).toLowerCase(), '') : 0;
  search.words.forEach(({ field, text }, i) => {
    if (field === 'category' && category.toLowerCase().includes(text)) bits |= 1 << i;
  });
  for (const id of ids) {
    let ofFrame = found.ofFrame.get(id);
    if (ofFrame === undefined) {
      ofFrame = bitsOfFrame(search, stacks.frame(id));
      found.ofFrame.set(id, ofFrame);
    }
    bits |= ofFrame;
  }
  return (bits & search.wanted) === search.wanted && (bits & search.unwanted) === 0;
}

/** Whether the words are found in a stack; each is looked at once. */
export function matchesStack(search: Search, stacks: Stacks, stack: number): boolean {
  if (search.words.length === 0) return true;
  let found = search.found.get(stacks);
  if (found === undefined) {
    found = { ofFrame: new Map(), ofStack: new Map() };
    search.found.set(stacks, found);
  }
  const key = stack < stacks.count ? stack : NONE;
  let isFound = found.ofStack.get(key);
  if (isFound === undefined) {
    isFound = isStackFound(search, stacks, stack, found);
    found.ofStack.set(key, isFound);
  }
  return isFound;
}

/** Whether one frame has one of the words that are wanted: it is what the search found in its stack. */
export function matchesFrame(search: Search, frame: Frame): boolean {
  return (bitsOfFrame(search, frame) & search.wanted) !== 0;
}

/** Whether a block of this stack and size is searched for. */
export function matches(search: Search, stacks: Stacks, stack: number, sizeBytes: number): boolean {
  return sizeBytes >= search.atLeast && sizeBytes <= search.atMost && matchesStack(search, stacks, stack);
}

/** The same for the blocks of a device by their number; null: nothing is searched for. */
export function blockMatcher(stacks: Stacks, blocks: Pick<Blocks, 'size' | 'stack'>, text: string): ((block: number) => boolean) | null {
  const search = parseSearch(text);
  return search === null ? null : (block) => matches(search, stacks, blocks.stack[block]!, blocks.size[block]!);
}
