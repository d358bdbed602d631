// From the words of a report to a place in the pictures: which stack "train.py:152 main" is, and which
// tab shows best what a finding is about.

import { failureInstant } from '../data/events';
import { baseName } from '../data/stacks';
import { liveAt } from '../data/live';
import type { Finding } from '../data/header';
import type { Device, Frame, Model, Run, Stacks } from '../data/model';
import { toDevice } from './defaults';
import type { Change, State, Tab } from './state';

/** Whether a report's "file:line function" is this frame. The report may have folders that the frame lacks. */
export function isPlace(where: string, frame: Frame): boolean {
  const short = `${baseName(frame.file)}:${frame.line} ${frame.functionName}`;
  return where === short || where === `${frame.file}:${frame.line} ${frame.functionName}` || where.endsWith(`/${short}`) || where.endsWith(`\\${short}`);
}

/** As the reports spell a frame. */
function reportFrame(frame: Frame): string {
  const line = frame.line > 0 ? `:${frame.line}` : '';
  return (frame.file || '?') + line + (frame.functionName === '' ? '' : ` ${frame.functionName}`);
}

/** Of a stack, as many frames as the reports have. */
export const MOST_FRAMES = 256;

/** Stacks by their frames as the reports spell them, innermost first. */
export function stacksByFrames(stacks: Stacks): ReadonlyMap<string, number[]> {
  const out = new Map<string, number[]>();
  for (let stack = 0; stack < stacks.count; stack++) {
    const key = framesKey(stacks.framesOf(stack).slice(0, MOST_FRAMES).map(reportFrame));
    const known = out.get(key);
    if (known === undefined) out.set(key, [stack]);
    else known.push(stack);
  }
  return out;
}

export function framesKey(frames: readonly string[]): string {
  return frames.join('\n');
}

/** Live bytes at an instant by stack. */
export function bytesByStack(device: Device, instant: number): ReadonlyMap<number, number> {
  const { stack, size } = device.blocks;
  const out = new Map<number, number>();
  for (const block of liveAt(device.blocks, instant)) out.set(stack[block]!, (out.get(stack[block]!) ?? 0) + size[block]!);
  return out;
}

/** Of the stacks that went through `where`, the one that weighs most; null: there is none. */
export function stackOfPlace(stacks: Stacks, where: string, weights: ReadonlyMap<number, number>): number | null {
  const isFrame = new Map<number, boolean>();
  const goesThere = (id: number): boolean => {
    let known = isFrame.get(id);
    if (known === undefined) isFrame.set(id, (known = isPlace(where, stacks.frame(id))));
    return known;
  };
  let best: number | null = null, most = -1;
  for (let stack = 0; stack < stacks.count; stack++) {
    const weight = weights.get(stack) ?? 0;
    if (weight > most && stacks.frameIdsOf(stack).some(goesThere)) [best, most] = [stack, weight];
  }
  return best;
}

/** By which a leak's stacks are weighed: what they have grown by. */
function grownBytes(device: Device): ReadonlyMap<number, number> {
  const { stack, bytes, step } = device.growth;
  const out = new Map<number, number>();
  stack.forEach((id, i) => out.set(id, bytes[(i + 1) * step.length - 1]! - bytes[i * step.length]!));
  return out;
}

/** The tab that shows what a kind of finding is about. */
export function tabOf(kind: string, hasGrowth: boolean): Tab {
  switch (kind) {
    case 'fragmentation':
    case 'stranded':
      return 'segments';
    case 'leak':
      return hasGrowth ? 'leaks' : 'timeline';
    case 'kept-graph': // it is let go again: the tab of leaks says that nothing grows
      return 'timeline';
    case 'peak':
    case 'genuine':
      return 'table';
    default:
      return 'findings';
  }
}

/** The index of the device that the doctor speaks of; else the one with the most events. */
export function doctorDevice(run: Run): number {
  const number = run.doctor?.numbers.device;
  const index = run.devices.findIndex((device) => device.header.device === number);
  return index < 0 ? run.busiest : index;
}

/** The id of a finding's element in the tab of findings: of one run at a time. */
export function findingId(index: number): string {
  return `finding-${index}`;
}

/** The change that shows a finding of a run; `where`: one of its places, its first without. */
export function targetOf(model: Model, state: State, run: number, finding: Finding, where: string | undefined = finding.where[0]): Change {
  const shown = model.runs[run]!, index = doctorDevice(shown), device = shown.devices[index];
  if (device === undefined) return { tab: 'findings', run };
  const move = state.run === run && state.device === index ? {} : toDevice(model, state, run, index);
  const tab = tabOf(finding.kind, device.growth.stack.length > 0);
  if (tab === 'findings' && where === undefined) return { ...move, tab };
  const instant = instantOf(finding, tab, device);
  const weights = tab === 'leaks' ? grownBytes(device) : bytesByStack(device, instant);
  return { ...move, tab, cursor: instant, stack: where === undefined ? null : stackOfPlace(shown.stacks, where, weights) };
}

/** At the failure, where there was one, or at the peak. */
function instantOf(finding: Finding, tab: Tab, device: Device): number {
  const peak = device.header.peak_instant, failure = failureInstant(device);
  if (tab === 'segments') return failure ?? device.header.peak_reserved_instant ?? peak;
  return finding.kind === 'peak' || finding.kind === 'genuine' ? (failure ?? peak) : peak;
}
