// The lines of What-if: what was recorded, and what each policy would have reserved.

import { tableText } from '../../data/csv';
import type { Device, Line } from '../../data/model';
import { DISTINCT, OF_POLICY } from '../../look/palette';
import { bytes } from '../../look/units';

export interface Policy {
  readonly name: string;
  readonly conf: string; // PYTORCH_CUDA_ALLOC_CONF of the replay
  readonly colour: string;
  readonly dash: readonly number[];
  readonly width: number;
  readonly line: Line;
  readonly end: number; // the last instant that the line has
  readonly failedAt: number | null; // out of memory
  readonly peak: number;
  readonly ratio: number | null; // to live
  readonly retries: number | null;
  readonly deviceUs: number | null; // in calls to the driver
}

const DASHES: Readonly<Record<string, readonly number[]>> = {
  recorded: [],
  native: [7, 4],
  expandable: [2, 3],
  vramwise: [10, 3, 2, 3],
};

function recorded(device: Device): Policy[] {
  const { header, reserved, lastInstant } = device, peak = header.peak_reserved_bytes;
  if (reserved.instant.length === 0 || peak === null || device.whatIf.some((run) => run.policy === 'recorded')) return [];
  return [
    {
      name: 'recorded',
      conf: '',
      colour: OF_POLICY['recorded']!,
      dash: [],
      width: 4, // a replay that is the same runs on top of it
      line: reserved,
      end: lastInstant,
      failedAt: device.marks.find((mark) => mark.kind === 'oom')?.instant ?? null,
      peak,
      ratio: header.peak_live_bytes > 0 ? peak / header.peak_live_bytes : null,
      retries: null,
      deviceUs: null,
    },
  ];
}

export function policiesOf(device: Device): Policy[] {
  const replays = device.whatIf.map((run, i): Policy => {
    const isTwice = device.whatIf.some((other, k) => k !== i && other.policy === run.policy);
    return {
      name: isTwice && run.conf ? `${run.policy} (${run.conf})` : run.policy,
      conf: run.conf ?? '',
      colour: OF_POLICY[run.policy] ?? DISTINCT[(i + 7) % DISTINCT.length]!,
      dash: DASHES[run.policy] ?? [4, 2],
      width: 2,
      line: run.line,
      end: run.is_complete ? device.lastInstant : (run.oom_instant ?? lastPoint(run.line)),
      failedAt: run.oom_instant,
      peak: run.peak_reserved_bytes,
      ratio: run.ratio,
      retries: run.retries,
      deviceUs: run.device_ns / 1000,
    };
  });
  return [...recorded(device), ...replays];
}

function lastPoint(line: Line): number {
  return line.instant[line.instant.length - 1] ?? 0;
}

/** Which stay below a card's size, and which do not, in words. */
export function fitText(policies: readonly Policy[], card: number): string {
  const name = (policy: Policy): string => `${policy.name} (${bytes(policy.peak)})`;
  const below = policies.filter((policy) => policy.peak <= card && policy.failedAt === null).map(name);
  const above = policies.filter((policy) => policy.peak > card && policy.failedAt === null).map(name);
  const failed = policies.filter((policy) => policy.failedAt !== null).map((policy) => policy.name);
  const parts = [below.length > 0 ? `Below ${bytes(card)} stay: ${below.join(', ')}.` : `None stays below ${bytes(card)}.`];
  if (above.length > 0) parts.push(`More is reserved by ${above.join(', ')}: on that card idle memory would be given back first, and what is then missing is out of memory.`);
  if (failed.length > 0) parts.push(`Ran out of memory already: ${failed.join(', ')}.`);
  return parts.join(' ');
}

/** Which policies have no line, and why. */
export function leftOutText(leftOut: readonly { policy: string; reason: string }[]): string {
  return leftOut.map(({ policy, reason }) => `${policy} could not be replayed: ${reason.replace(/\.$/, '')}.`).join(' ');
}

/** For a spreadsheet. */
export function policiesText(policies: readonly Policy[]): string {
  const head = ['policy', 'conf', 'peak_reserved_bytes', 'ratio', 'retries', 'device_us', 'out_of_memory_at_instant'];
  return tableText(head, policies.map((one) => [one.name, one.conf, one.peak, one.ratio, one.retries, one.deviceUs, one.failedAt]));
}
