import type { PanelKind } from '../../app/panel';
import { makeDiff } from './panel';

export const diff: PanelKind = {
  tab: 'diff',
  title: 'Diff',
  keys: [
    ['←  →', 'in the chart: move the cursor'],
    ['+  -  Escape', 'in the chart: zoom in, zoom out, the whole run'],
  ],
  missing(app) {
    const { runs } = app.model;
    if (runs.length < 2) return 'One recording is open. To compare, open two recordings: vramwise view A B';
    const empty = runs.find((run) => run.devices.length === 0);
    return empty === undefined ? null : `${empty.file} has no device in it: there is nothing to compare.`;
  },
  make: makeDiff,
};
