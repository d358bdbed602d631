// Who holds how much: blocks added up by stack, and stacks by what they have in common.

import { tableText, type Separator } from './csv';
import { liveAt } from './live';
import { NONE, type Device, type Frame, type Stacks } from './model';
import { matches, type Search } from './search';
import { frameLabel } from './stacks';

/** Live at the peak, live at the cursor, or everything that was ever allocated. */
export const MOMENTS = ['peak', 'cursor', 'run'] as const;
export type Moment = (typeof MOMENTS)[number];

export interface Usage {
  readonly stack: number;
  readonly bytes: number;
  readonly blocks: number;
  readonly largest: number;
}

export function instantOf(device: Device, moment: Moment, cursor: number): number {
  if (moment === 'peak') return device.header.peak_instant;
  return Math.max(0, Math.min(device.lastInstant, Math.round(cursor)));
}

/** The blocks of a moment: null stands for all there are. */
function blocksOf(device: Device, moment: Moment, cursor: number): Uint32Array | null {
  return moment === 'run' ? null : liveAt(device.blocks, instantOf(device, moment, cursor));
}

/** By stack, most bytes first; with a search, of the blocks that it finds. */
export function usageByStack(device: Device, stacks: Stacks, moment: Moment, cursor: number, search: Search | null = null): Usage[] {
  const chosen = blocksOf(device, moment, cursor);
  const { stack: stackOf, size: sizeOf, count } = device.blocks;
  const slots = stacks.count + 1; // the last: no stack
  const bytes = new Float64Array(slots), blocks = new Uint32Array(slots), largest = new Float64Array(slots);
  const number = chosen === null ? count : chosen.length;
  for (let i = 0; i < number; i++) {
    const block = chosen === null ? i : chosen[i]!;
    const stack = stackOf[block]!, size = sizeOf[block]!;
    if (search !== null && !matches(search, stacks, stack, size)) continue;
    const slot = Math.min(stack, slots - 1);
    bytes[slot]! += size;
    blocks[slot]!++;
    if (size > largest[slot]!) largest[slot] = size;
  }
  const found: Usage[] = [];
  for (let slot = 0; slot < slots; slot++) {
    if (blocks[slot]! > 0)
      found.push({ stack: slot === stacks.count ? NONE : slot, bytes: bytes[slot]!, blocks: blocks[slot]!, largest: largest[slot]! });
  }
  return found.sort((a, b) => b.bytes - a.bytes || a.stack - b.stack);
}

export interface Total {
  readonly bytes: number;
  readonly blocks: number;
}

export function totalOf(usages: readonly Total[]): Total {
  return { bytes: usages.reduce((sum, one) => sum + one.bytes, 0), blocks: usages.reduce((sum, one) => sum + one.blocks, 0) };
}

export const GROUPINGS = ['stack', 'where', 'function', 'file', 'category'] as const;
export type Grouping = (typeof GROUPINGS)[number];

/** What stacks have in common that are one row. */
export interface Row extends Total {
  readonly key: string; // the same for the same row at every moment
  readonly largest: number;
  readonly category: string; // of most of its bytes
  readonly where: string;
  readonly file: string;
  readonly usages: readonly Usage[]; // most bytes first
}

/** Stacks of the same category with the same frames are one where some frames are hidden. */
function shownKeyOf(stacks: Stacks, shown: Stacks, stack: number): string {
  const frames = shown.frameIdsOf(stack);
  return shown === stacks || frames.length === 0 ? String(stack) : `${stacks.categoryOf(stack)}: ${frames.join()}`;
}

function keyOf(stacks: Stacks, shown: Stacks, stack: number, grouping: Grouping, where: Frame | null): string {
  switch (grouping) {
    case 'stack':
      return shownKeyOf(stacks, shown, stack);
    case 'where':
      return where === null ? '' : `${where.file}\n${where.line}\n${where.functionName}`;
    case 'function':
      return where === null ? '' : where.functionName;
    case 'file':
      return where === null ? '' : where.file;
    case 'category':
      return stacks.categories[stacks.categoryOf(stack)] ?? 'unknown';
  }
}

function mostlyOf(stacks: Stacks, usages: readonly Usage[]): string {
  const bytes = new Map<number, number>();
  for (const { stack, bytes: more } of usages) {
    const category = stacks.categoryOf(stack);
    bytes.set(category, (bytes.get(category) ?? 0) + more);
  }
  let most = -1, best = -1;
  for (const [category, sum] of bytes) if (sum > most) [most, best] = [sum, category];
  return stacks.categories[best] ?? 'unknown';
}

/** What the row says where its parts differ: the common value, or how many there are. */
function common(values: Iterable<string>, many: string): string {
  const different = new Set(values);
  return different.size === 1 ? [...different][0]! : `${different.size} ${many}`;
}

function nameOf(stacks: Stacks, usages: readonly Usage[], grouping: Grouping): string {
  const { stack } = usages[0]!, where = stacks.whereOf(stack);
  if (where === null) return common(usages.map((usage) => stacks.labelOf(usage.stack)), 'kinds of stacks without a frame');
  if (grouping === 'function') return where.functionName || 'unknown';
  if (grouping === 'stack' || grouping === 'where') return frameLabel(where);
  return common(usages.map((usage) => stacks.labelOf(usage.stack)), 'places');
}

/** `shown`: the stacks with the frames that are not hidden. */
export function groupRows(usages: readonly Usage[], stacks: Stacks, grouping: Grouping, shown: Stacks = stacks): Row[] {
  const members = new Map<string, Usage[]>();
  for (const usage of usages) {
    const key = keyOf(stacks, shown, usage.stack, grouping, stacks.whereOf(usage.stack)), known = members.get(key);
    if (known === undefined) members.set(key, [usage]);
    else known.push(usage);
  }
  return Array.from(members, ([key, group]): Row => ({
    ...totalOf(group),
    key: grouping === 'stack' ? String(group[0]!.stack) : key,
    largest: group.reduce((largest, usage) => Math.max(largest, usage.largest), 0),
    category: mostlyOf(stacks, group),
    where: nameOf(stacks, group, grouping),
    file: common(group.map((usage) => stacks.whereOf(usage.stack)?.file ?? ''), 'files'),
    usages: group,
  }));
}

export const COLUMNS = ['bytes', 'share', 'blocks', 'largest', 'category', 'where', 'file'] as const;
export type ColumnName = (typeof COLUMNS)[number];

function compare(a: Row, b: Row, column: ColumnName): number {
  switch (column) {
    case 'bytes':
    case 'share':
      return a.bytes - b.bytes;
    case 'blocks':
      return a.blocks - b.blocks;
    case 'largest':
      return a.largest - b.largest;
    case 'category':
    case 'where':
    case 'file':
      return a[column] < b[column] ? -1 : a[column] > b[column] ? 1 : 0;
  }
}

/** A new list; what is the same by the column is by bytes, most first. */
export function sortRows(rows: readonly Row[], column: ColumnName, isFalling: boolean): Row[] {
  const sign = isFalling ? -1 : 1;
  return [...rows].sort((a, b) => sign * compare(a, b, column) || b.bytes - a.bytes || (a.key < b.key ? -1 : 1));
}

/** For a spreadsheet: bytes as whole numbers, the share in percent. `inside` is what insideOf() says. */
export function rowsAsText(rows: readonly Row[], totalBytes: number, separator: Separator, inside: ReadonlyMap<string, string>): string {
  const head = ['bytes', 'share_percent', 'blocks', 'largest_bytes', 'category', 'where', 'inside', 'file'];
  const share = (row: Row): string => (totalBytes > 0 ? ((100 * row.bytes) / totalBytes).toFixed(3) : '0');
  return tableText(head, rows.map((row) => [row.bytes, share(row), row.blocks, row.largest, row.category, row.where, inside.get(row.key) ?? '', row.file]), separator);
}
