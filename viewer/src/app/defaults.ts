// What is shown before anybody chose, and what follows from choosing another device.

import { failureInstant } from '../data/events';
import type { Device, Model } from '../data/model';
import { toneOf } from '../data/verdicts';
import type { Change, State, Tab, Theme } from './state';

/** The doctor found of a recording that memory runs out. */
export function isWrong(model: Model): boolean {
  return model.runs.some((run) => run.doctor !== null && toneOf(run.doctor.verdict) === 'danger');
}

function tabFor(model: Model, device: Device | undefined): Tab {
  if (model.diff !== null) return 'diff';
  if (isWrong(model)) return 'findings';
  return device !== undefined && !device.header.has_trace ? 'segments' : 'timeline';
}

/** The failure, where there is one: whoever opens the page asks about that. Else the peak. */
function cursorFor(device: Device): number {
  return Math.min(failureInstant(device) ?? device.header.peak_instant, device.lastInstant);
}

/** `run` and `device` have to be of the model, or the run must have no device. */
export function defaultState(model: Model, theme: Theme, run = 0, device = model.runs[run]?.busiest ?? 0): State {
  const chosen = model.runs[run]?.devices[device];
  return {
    tab: tabFor(model, chosen),
    run,
    device,
    from: 0,
    to: chosen?.lastInstant ?? 0,
    cursor: chosen === undefined ? 0 : cursorFor(chosen),
    pinned: null,
    stack: null,
    colour: 'stack',
    search: '',
    frames: 'all',
    theme,
  };
}

/** Instants and blocks are those of a device, stacks those of a run: they go with them. */
export function toDevice(model: Model, state: State, run: number, device?: number): Change {
  const { from, to, cursor, pinned, stack, ...rest } = defaultState(model, state.theme, run, device);
  return { run: rest.run, device: rest.device, from, to, cursor, pinned, stack: run === state.run ? state.stack : stack };
}
