// Two runs over one axis. They have different numbers of events, so that a place on the axis is another
// instant in each: the same share of the run, the same number of events, or the same place in the same
// step.

import type { Device } from '../../data/model';

export const ALIGNMENTS = ['share', 'events', 'steps'] as const;
export type AlignBy = (typeof ALIGNMENTS)[number];

export interface Alignment {
  readonly by: AlignBy;
  readonly end: number; // of the axis, which begins at 0
  readonly isWhole: boolean; // places on it are whole numbers
  /** The instant of a run at a place of the axis; null: the run was over. */
  instantAt(run: number, place: number): number | null;
  /** And back; null: it is not on the axis. */
  placeOf(run: number, instant: number): number | null;
}

export function alignmentsOf(devices: readonly Device[]): AlignBy[] {
  const haveSteps = devices.every((device) => device.stepEnds.length > 0);
  return haveSteps ? ['share', 'events', 'steps'] : ['share', 'events'];
}

/** Between two ends of steps instants are taken for even; step 0 begins at instant 0. */
export function instantOfStep(stepEnds: ArrayLike<number>, place: number): number | null {
  const count = stepEnds.length;
  if (place > count) return null;
  const step = Math.floor(place);
  const begin = step === 0 ? 0 : stepEnds[step - 1]!, end = step < count ? stepEnds[step]! : begin;
  return begin + (end - begin) * (place - step);
}

export function stepOfInstant(stepEnds: ArrayLike<number>, instant: number): number | null {
  let step = 0;
  while (step < stepEnds.length && stepEnds[step]! < instant) step++;
  if (step === stepEnds.length) return null;
  const begin = step === 0 ? 0 : stepEnds[step - 1]!, end = stepEnds[step]!;
  return end > begin ? step + (instant - begin) / (end - begin) : step;
}

export function align(by: AlignBy, devices: readonly Device[]): Alignment {
  const lengths = devices.map((device) => device.lastInstant);
  switch (by) {
    case 'share':
      return {
        by,
        end: 100,
        isWhole: false,
        instantAt: (run, place) => (place * lengths[run]!) / 100,
        placeOf: (run, instant) => (lengths[run]! > 0 ? (100 * instant) / lengths[run]! : 0),
      };
    case 'events':
      return {
        by,
        end: Math.max(0, ...lengths),
        isWhole: true,
        instantAt: (run, place) => (place <= lengths[run]! ? place : null),
        placeOf: (_, instant) => instant,
      };
    case 'steps': {
      const most = Math.max(...devices.map((device) => device.stepEnds.length));
      return {
        by,
        end: most,
        isWhole: false,
        instantAt: (run, place) => instantOfStep(devices[run]!.stepEnds, place),
        placeOf: (run, instant) => stepOfInstant(devices[run]!.stepEnds, instant),
      };
    }
  }
}
