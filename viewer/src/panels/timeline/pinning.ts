// Which block a key pins: the picture is a stack of the blocks that are live at the cursor.

import { liveAt } from '../../data/live';
import type { Device } from '../../data/model';
import type { PinWay } from '../../picture/view';

/** null: none is live there. Above and below stay where there is none further; from nothing pinned they start with the largest. */
export function blockByKey(device: Device, instant: number, pinned: number | null, way: PinWay): number | null {
  const live = liveAt(device.blocks, instant), place = pinned === null ? -1 : live.indexOf(pinned);
  if (live.length === 0) return null;
  if (way !== 'largest' && place >= 0) return live[Math.max(0, Math.min(live.length - 1, place + (way === 'above' ? 1 : -1)))]!;
  return live.reduce((largest, block) => (device.blocks.size[block]! > device.blocks.size[largest]! ? block : largest), live[0]!);
}
