import type { PanelKind } from '../../app/panel';
import { makeFlamePanel } from './panel';

export const flame: PanelKind = {
  tab: 'flame',
  title: 'Flame graph',
  keys: [
    ['\u2190  \u2192  \u2191  \u2193', 'from box to box'],
    ['Enter', 'zoom in'],
    ['Esc  Backspace', 'zoom out again'],
  ],
  missing: (app) => (app.device().blocks.count === 0 ? 'The recording has no block on this device.' : null),
  make: makeFlamePanel,
};
