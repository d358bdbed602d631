// Reads the container (docs/design/008) into the model. What does not fit together is an Error with
// words for people; nothing of it is ever run.

import { decodeColumn, type Column, type ColumnType } from './columns';
import type { ColumnPlace, DeviceHeader, Header, RunHeader } from './header';
import type { Blocks, Device, Growth, Line, Model, Pieces, Run, WhatIf } from './model';
import { makeStacks } from './stacks';
import { cleanText, cleanTexts } from './texts';

const MAGIC = [0x56, 0x57, 0x56, 0x49, 0x45, 0x57, 0, 1]; // "VWVIEW", 0, format 1
const PREFIX_BYTES = 16;

async function inflate(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export function readHeader(bytes: Uint8Array): Header {
  if (bytes.length < PREFIX_BYTES || MAGIC.some((byte, i) => bytes[i] !== byte))
    throw new Error('this is not the data of a vramwise page, or of another version');
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(8, true);
  if (length > bytes.length - PREFIX_BYTES) throw new Error('the data of the page is cut short');
  const text = new TextDecoder().decode(bytes.subarray(PREFIX_BYTES, PREFIX_BYTES + length));
  let header: Header;
  try {
    header = JSON.parse(text, cleanTexts) as Header;
  } catch {
    throw new Error('the header of the data cannot be read');
  }
  if (typeof header !== 'object' || header === null) throw new Error('the header of the data cannot be read');
  if (header.format !== 1) throw new Error(`the data has format ${header.format}, this page reads 1`);
  needList(header, 'columns');
  needList(header, 'runs');
  if (header.runs.length === 0 && header.ranks === undefined) throw new Error("the data of the page lacks 'runs'");
  for (const run of header.runs) {
    needList(run, 'devices');
    needList(run, 'categories');
    for (const device of run.devices) for (const name of ['marks', 'what_if', 'what_if_left_out', 'streams', 'pools'] as const) needList(device, name);
  }
  if (header.ranks !== undefined)
    for (const name of ['ranks', 'unassigned', 'missing', 'outliers', 'sites', 'settings', 'files', 'notes'] as const) needList(header.ranks, name);
  return header;
}

function needList<T extends object>(holder: T, name: keyof T & string): void {
  if (typeof holder !== 'object' || holder === null || !Array.isArray(holder[name])) throw new Error(`the data of the page lacks '${name}'`);
}

const isWhole = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

async function decode(name: string, type: ColumnType, count: number, packed: Uint8Array): Promise<Column> {
  try {
    return decodeColumn(type, count, count === 0 ? new Uint8Array(0) : await inflate(packed));
  } catch (error) {
    throw new Error(`'${name}' is damaged: ${error instanceof Error ? error.message : String(error)}`);
  }
}

class Columns {
  private readonly places = new Map<string, ColumnPlace>();

  constructor(
    private readonly bytes: Uint8Array,
    header: Header,
  ) {
    for (const place of header.columns) this.places.set(place.name, place);
  }

  /** `count`: as many values as it has to have, where that is known. */
  async read(name: string, type: 'u8', count?: number): Promise<Uint8Array>;
  async read(name: string, type: 'u16', count?: number): Promise<Uint16Array>;
  async read(name: string, type: 'u32', count?: number): Promise<Uint32Array>;
  async read(name: string, type: 'u64', count?: number): Promise<Float64Array>;
  async read(name: string, type: ColumnType, count?: number): Promise<Column> {
    const place = this.places.get(name);
    if (place === undefined) throw new Error(`the data of the page lacks '${name}'`);
    if (place.type !== type) throw new Error(`'${name}' is of ${place.type}, not ${type}`);
    if (!isWhole(place.count)) throw new Error(`'${name}' has ${place.count} values`);
    if (count !== undefined && place.count !== count) throw new Error(`'${name}' has ${place.count} values, not ${count}`);
    if (!isWhole(place.offset) || !isWhole(place.bytes) || place.offset + place.bytes > this.bytes.length)
      throw new Error('the data of the page is cut short');
    const packed = this.bytes.subarray(place.offset, place.offset + place.bytes);
    return decode(name, type, place.count, packed);
  }
}

async function readBlocks(columns: Columns, prefix: string, count: number): Promise<Blocks> {
  const [begin, freed, end, size, address, stack, stream, level] = await Promise.all([
    columns.read(`${prefix}block.begin`, 'u32', count),
    columns.read(`${prefix}block.freed`, 'u32', count),
    columns.read(`${prefix}block.end`, 'u32', count),
    columns.read(`${prefix}block.size`, 'u64', count),
    columns.read(`${prefix}block.address`, 'u64', count),
    columns.read(`${prefix}block.stack`, 'u32', count),
    columns.read(`${prefix}block.stream`, 'u16', count),
    columns.read(`${prefix}block.level`, 'u8', count),
  ]);
  return { count, begin, freed, end, size, address, stack, stream, level };
}

async function readPieces(columns: Columns, prefix: string, count: number): Promise<Pieces> {
  const [begin, end, address, size, segment, stream, pool, expandable] = await Promise.all([
    columns.read(`${prefix}piece.begin`, 'u32', count),
    columns.read(`${prefix}piece.end`, 'u32', count),
    columns.read(`${prefix}piece.address`, 'u64', count),
    columns.read(`${prefix}piece.size`, 'u64', count),
    columns.read(`${prefix}piece.segment`, 'u32', count),
    columns.read(`${prefix}piece.stream`, 'u16', count),
    columns.read(`${prefix}piece.pool`, 'u16', count),
    columns.read(`${prefix}piece.expandable`, 'u8', count),
  ]);
  return { count, begin, end, address, size, segment, stream, pool, expandable };
}

async function readLine(columns: Columns, prefix: string): Promise<Line> {
  const [instant, bytes] = await Promise.all([
    columns.read(`${prefix}instant`, 'u32'),
    columns.read(`${prefix}bytes`, 'u64'),
  ]);
  if (instant.length !== bytes.length) throw new Error(`'${prefix}bytes' has ${bytes.length} values, not ${instant.length}`);
  return { instant, bytes };
}

async function readWhatIf(columns: Columns, prefix: string, header: DeviceHeader): Promise<WhatIf[]> {
  return Promise.all(
    header.what_if.map(async (run, i) => ({ ...run, line: await readLine(columns, `${prefix}what_if.${i}.`) })),
  );
}

async function readGrowth(columns: Columns, prefix: string, header: DeviceHeader): Promise<Growth> {
  const [step, instant, stack, bytesPerStep, bytes] = await Promise.all([
    columns.read(`${prefix}growth.step`, 'u32'),
    columns.read(`${prefix}growth.instant`, 'u32'),
    columns.read(`${prefix}growth.stack`, 'u32'),
    columns.read(`${prefix}growth.bytes_per_step`, 'u64'),
    columns.read(`${prefix}growth.bytes`, 'u64'),
  ]);
  return { step, instant, stack, bytesPerStep, bytes, reason: header.growth_reason };
}

async function readDevice(columns: Columns, prefix: string, header: DeviceHeader): Promise<Device> {
  const [blocks, pieces, reserved, timeUs, stepEnds, phaseEnds, whatIf, growth] = await Promise.all([
    readBlocks(columns, prefix, header.block_count),
    readPieces(columns, prefix, header.piece_count),
    readLine(columns, `${prefix}reserved.`),
    columns.read(`${prefix}time.us`, 'u64'),
    columns.read(`${prefix}step.end`, 'u32'),
    columns.read(`${prefix}phase.end`, 'u32'),
    readWhatIf(columns, prefix, header),
    readGrowth(columns, prefix, header),
  ]);
  const name = header.device < 0 ? 'pinned host memory' : `GPU ${header.device}`;
  return {
    header,
    name,
    lastInstant: header.event_count,
    blocks,
    pieces,
    reserved,
    timeUs,
    stepEnds,
    phaseEnds,
    marks: header.marks,
    whatIf,
    growth,
  };
}

function readStrings(bytes: Uint8Array, name: string): string[] {
  try {
    const texts: unknown = JSON.parse(new TextDecoder().decode(bytes) || '[]');
    if (Array.isArray(texts)) return texts.map((text) => cleanText(String(text)));
  } catch {
    // Said below.
  }
  throw new Error(`'${name}' is damaged: expected a list of texts`);
}

async function readRun(columns: Columns, prefix: string, header: RunHeader): Promise<Run> {
  const [strings, functionName, file, line, users, first, frames, category, where] = await Promise.all([
    columns.read(`${prefix}strings`, 'u8'),
    columns.read(`${prefix}frame.function`, 'u32'),
    columns.read(`${prefix}frame.file`, 'u32'),
    columns.read(`${prefix}frame.line`, 'u32'),
    columns.read(`${prefix}frame.users`, 'u8'),
    columns.read(`${prefix}stack.first`, 'u32'),
    columns.read(`${prefix}stack.frames`, 'u32'),
    columns.read(`${prefix}stack.category`, 'u8'),
    columns.read(`${prefix}stack.where`, 'u32'),
  ]);
  const texts = readStrings(strings, `${prefix}strings`);
  const devices = await Promise.all(
    header.devices.map((device, i) => readDevice(columns, `${prefix}d${i}.`, device)),
  );
  let busiest = 0;
  devices.forEach((device, i) => {
    if (device.lastInstant > devices[busiest]!.lastInstant) busiest = i;
  });
  return {
    file: header.file ?? 'recording',
    stats: header.stats,
    doctor: header.doctor,
    doctorReason: header.doctor_reason,
    stacks: makeStacks({ strings: texts, functionName, file, line, users, first, frames, category, where, categories: header.categories }),
    devices,
    busiest,
  };
}

export async function readContainer(bytes: Uint8Array): Promise<Model> {
  const header = readHeader(bytes);
  const columns = new Columns(bytes, header);
  const runs = await Promise.all(header.runs.map((run, i) => readRun(columns, `r${i}.`, run)));
  return { vramwise: header.vramwise, runs, diff: header.diff, diffReason: header.diff_reason ?? null, ranks: header.ranks ?? null };
}
