import type { PanelKind } from '../../app/panel';
import { makeWhatIf } from './panel';

export const whatIf: PanelKind = {
  tab: 'what-if',
  title: 'What-if',
  keys: [
    ['←  →', 'in the chart: move the cursor'],
    ['+  -  Escape', 'in the chart: zoom in, zoom out, the whole run'],
  ],
  missing(app) {
    const { whatIf: replays, header } = app.device();
    return replays.length > 0 ? null : `There are no replays of ${app.device().name}: ${header.what_if_reason ?? 'none was made'}.`;
  },
  make: makeWhatIf,
};
