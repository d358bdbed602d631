import type { PanelKind } from '../../app/panel';
import { makeLeaks } from './panel';

export const leaks: PanelKind = {
  tab: 'leaks',
  title: 'Leaks',
  keys: [['←  →', 'in the chart: move the cursor']],
  missing(app) {
    const { growth, name } = app.device();
    if (growth.reason !== null) return `Growth from step to step is not known for ${name}: ${growth.reason}.`;
    if (growth.stack.length === 0 || growth.step.length < 2) return `Nothing grows on ${name}: no stack holds more from step to step.`;
    return null;
  },
  make: makeLeaks,
};
