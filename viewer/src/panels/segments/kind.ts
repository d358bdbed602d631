import type { PanelKind } from '../../app/panel';
import { noLayoutReason } from './layout';
import { makeSegmentsPanel } from './panel';

export const segments: PanelKind = {
  tab: 'segments',
  title: 'Segments',
  keys: [
    ['\u2190  \u2192', 'one event back, one on'],
    ['Shift + \u2190 \u2192', 'to the end of the step before, or of this one'],
    ['PageUp  PageDown', 'a hundredth of the run back, on'],
    ['Home  End', 'to the beginning, to the end'],
    ['click', 'pin a block, or list what holds an idle range'],
  ],
  missing: (app) => noLayoutReason(app.device()),
  make: makeSegmentsPanel,
};
