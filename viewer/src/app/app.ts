// What panels are given (panel.ts), over a model.

import { Highest, liveLine } from '../data/live';
import type { Device, Model, Run } from '../data/model';
import type { App } from './panel';
import type { Store } from './state';

export function makeApp(model: Model, store: Store, say: (text: string) => void): App {
  const lines = new Map<Device, Float64Array>();
  const highest = new Map<Device, Highest>();
  const once = <T>(made: Map<Device, T>, device: Device, make: () => T): T => {
    const known = made.get(device) ?? make();
    made.set(device, known);
    return known;
  };
  const run = (): Run => model.runs[store.state.run]!;
  const liveOf = (device: Device): Float64Array => once(lines, device, () => liveLine(device.blocks, device.lastInstant));
  return {
    model,
    store,
    run,
    stacks: () => (store.state.frames === 'own' ? run().stacks.usersOnly() : run().stacks),
    device: () => run().devices[store.state.device]!,
    liveOf,
    highestLiveOf: (device) => once(highest, device, () => new Highest(liveOf(device))),
    say,
  };
}
