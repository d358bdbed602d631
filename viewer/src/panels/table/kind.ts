import type { PanelKind } from '../../app/panel';
import { makeTablePanel } from './panel';

export const table: PanelKind = {
  tab: 'table',
  title: 'Table',
  keys: [
    ['\u2191  \u2193', 'from row to row'],
    ['\u2190  \u2192', 'close a row, show its stack'],
    ['Enter', 'highlight its stack everywhere'],
  ],
  missing: (app) => (app.device().blocks.count === 0 ? 'The recording has no block on this device.' : null),
  make: makeTablePanel,
};
