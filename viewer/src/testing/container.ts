// Containers for tests, packed in the plainest way (docs/design/008).

import type { ColumnType } from '../data/columns';
import type { Header, RunHeader } from '../data/header';
import { NONE, type Device, type Run } from '../data/model';
import { sampleRun, type Sample } from './model';

export interface SampleColumn {
  name: string;
  type: ColumnType;
  values: ArrayLike<number>;
}

const WIDTH = { u8: 1, u16: 2, u32: 4, u64: 8 } as const;

export function encodeColumn(type: ColumnType, values: ArrayLike<number>): Uint8Array {
  const width = WIDTH[type], bits = 8 * width, out = new Uint8Array(values.length * width);
  let before = 0n;
  for (let i = 0; i < values.length; i++) {
    const value = BigInt(values[i]!), difference = BigInt.asIntN(bits, value - before);
    const code = type === 'u8' ? value : BigInt.asUintN(bits, (difference << 1n) ^ (difference >> BigInt(bits - 1)));
    for (let plane = 0; plane < width; plane++) out[plane * values.length + i] = Number((code >> BigInt(8 * plane)) & 255n);
    before = value;
  }
  return out;
}

async function deflate(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new CompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** `change` may spoil the header before it is written: the columns' places are in it. */
export async function packContainer(
  header: Omit<Header, 'columns'>,
  columns: readonly SampleColumn[],
  change: (header: Header) => unknown = () => undefined,
): Promise<Uint8Array> {
  const packed = await Promise.all(columns.map(({ type, values }) => deflate(encodeColumn(type, values))));
  const whole: Header = { ...header, columns: columns.map(({ name, type, values }, i) => ({ name, type, count: values.length, offset: 0, bytes: packed[i]!.length })) };
  let at = 65536; // more than any header here
  for (const place of whole.columns) {
    place.offset = at;
    at += Math.ceil(place.bytes / 8) * 8;
  }
  const places = whole.columns.map((place) => place.offset);
  change(whole);
  const text = new TextEncoder().encode(JSON.stringify(whole));
  if (text.length > 65536 - 16) throw new Error('the header of a sample is too long');
  const out = new Uint8Array(at);
  out.set([0x56, 0x57, 0x56, 0x49, 0x45, 0x57, 0, 1]);
  new DataView(out.buffer).setUint32(8, text.length, true);
  out.set(text, 16);
  packed.forEach((bytes, i) => out.set(bytes, places[i]));
  return out;
}

function deviceColumns(device: Device, prefix: string): SampleColumn[] {
  const { blocks, pieces, reserved, growth } = device;
  const column = (name: string, type: ColumnType, values: ArrayLike<number>): SampleColumn => ({ name: prefix + name, type, values });
  return [
    column('block.begin', 'u32', blocks.begin),
    column('block.freed', 'u32', blocks.freed),
    column('block.end', 'u32', blocks.end),
    column('block.size', 'u64', blocks.size),
    column('block.address', 'u64', blocks.address),
    column('block.stack', 'u32', blocks.stack),
    column('block.stream', 'u16', blocks.stream),
    column('block.level', 'u8', blocks.level),
    column('piece.begin', 'u32', pieces.begin),
    column('piece.end', 'u32', pieces.end),
    column('piece.address', 'u64', pieces.address),
    column('piece.size', 'u64', pieces.size),
    column('piece.segment', 'u32', pieces.segment),
    column('piece.stream', 'u16', pieces.stream),
    column('piece.pool', 'u16', pieces.pool),
    column('piece.expandable', 'u8', pieces.expandable),
    column('reserved.instant', 'u32', reserved.instant),
    column('reserved.bytes', 'u64', reserved.bytes),
    column('time.us', 'u64', device.timeUs),
    column('step.end', 'u32', device.stepEnds),
    column('phase.end', 'u32', device.phaseEnds),
    ...device.whatIf.flatMap(({ line }, i) => [column(`what_if.${i}.instant`, 'u32', line.instant), column(`what_if.${i}.bytes`, 'u64', line.bytes)]),
    column('growth.step', 'u32', growth.step),
    column('growth.instant', 'u32', growth.instant),
    column('growth.stack', 'u32', growth.stack),
    column('growth.bytes_per_step', 'u64', growth.bytesPerStep),
    column('growth.bytes', 'u64', growth.bytes),
  ];
}

function runColumns({ stacks, devices }: Run, prefix: string): { header: Pick<RunHeader, 'stack_count' | 'frame_count'>; columns: SampleColumn[] } {
  const strings: string[] = [];
  const number = (text: string): number => (strings.includes(text) ? strings.indexOf(text) : strings.push(text) - 1);
  const all = Array.from({ length: stacks.count }, (_, stack) => stacks.framesOf(stack));
  const frames = all.flat(), first = [0];
  for (const one of all) first.push(first[first.length - 1]! + one.length);
  const column = (name: string, type: ColumnType, values: ArrayLike<number>): SampleColumn => ({ name: prefix + name, type, values });
  const columns = [
    column('frame.function', 'u32', frames.map((frame) => number(frame.functionName))),
    column('frame.file', 'u32', frames.map((frame) => number(frame.file))),
    column('frame.line', 'u32', frames.map((frame) => frame.line)),
    column('frame.users', 'u8', all.flatMap((one, stack) => one.map((frame) => Number(stacks.usersOnly().framesOf(stack).some((kept) => kept.line === frame.line))))),
    column('stack.first', 'u32', first),
    column('stack.frames', 'u32', frames.map((_, i) => i)),
    column('stack.category', 'u8', all.map((_, stack) => stacks.categoryOf(stack))),
    column('stack.where', 'u32', all.map((one, stack) => (one.length === 0 ? NONE : one.findIndex((frame) => frame.line === stacks.whereOf(stack)?.line)))),
    column('strings', 'u8', new TextEncoder().encode(JSON.stringify(strings))),
    ...devices.flatMap((device, i) => deviceColumns(device, `${prefix}d${i}.`)),
  ];
  return { header: { stack_count: stacks.count, frame_count: frames.length }, columns };
}

export async function runsContainer(runs: readonly Run[], change?: (header: Header) => unknown): Promise<Uint8Array> {
  const packed = runs.map((run, i) => runColumns(run, `r${i}.`));
  const headers = runs.map((run, i): RunHeader => ({
    file: run.file,
    stats: run.stats,
    doctor: run.doctor,
    doctor_reason: run.doctorReason,
    categories: [...run.stacks.categories],
    ...packed[i]!.header,
    devices: run.devices.map((device) => device.header),
  }));
  return packContainer({ format: 1, vramwise: '0.0.0', runs: headers, diff: null }, packed.flatMap((one) => one.columns), change);
}

export function sampleContainer(...samples: Sample[]): Promise<Uint8Array> {
  return runsContainer(samples.map(sampleRun));
}

export function toBase64(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
