// The moment of which the table and the flame graph speak: one switch, the same in both.

import type { App } from '../../app/panel';
import type { State } from '../../app/state';
import { instantOf, type Moment } from '../../data/groups';
import { timeAt } from '../../data/live';
import type { Device } from '../../data/model';
import { duration } from '../../look/units';
import { makeSegmented, type Segmented } from '../../look/segmented';
import { eventText } from '../../data/events';

const chosen = new WeakMap<App, Moment>();

export function momentOf(app: App): Moment {
  return chosen.get(app) ?? 'peak';
}

export function makeMomentSwitch(app: App, changed: () => void): Segmented<Moment> {
  return makeSegmented<Moment>(
    'Moment',
    [
      { value: 'peak', title: 'At the peak' },
      { value: 'cursor', title: 'At the cursor' },
      { value: 'run', title: 'Whole run' },
    ],
    (moment) => {
      chosen.set(app, moment);
      changed();
    },
  );
}

/** "event 1,234 (5.10 s)" */
export function instantText(device: Device, instant: number): string {
  if (!device.header.has_trace) return 'the end';
  const time = timeAt(device, instant);
  return `${eventText(instant)}${time === null ? '' : ` (${duration(time)})`}`;
}

/** What the bytes of a moment are, in words. */
export function momentText(device: Device, moment: Moment, state: State): string {
  if (!device.header.has_trace) return 'live at the end: the recording has no events';
  if (moment === 'run') return 'allocated in the whole run, each block once';
  return `live at ${instantText(device, instantOf(device, moment, state.cursor))}`;
}

/** What blocks are drawn from changes with these only. */
export function momentKey(app: App, state: State): string {
  const moment = momentOf(app);
  return [state.run, state.device, moment, moment === 'cursor' ? state.cursor : ''].join(' ');
}

/** A value that is made again only when its key changes. */
export class Kept<T> {
  private key: string | null = null;
  private value: T | undefined;

  get(key: string, make: () => T): T {
    if (this.key !== key) {
      this.value = make();
      this.key = key;
    }
    return this.value as T;
  }
}
