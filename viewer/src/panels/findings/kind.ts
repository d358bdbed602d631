import type { PanelKind } from '../../app/panel';
import { makeFindings } from './panel';

export const findings: PanelKind = {
  tab: 'findings',
  title: 'Findings',
  missing: () => null, // without a verdict it says why
  make: makeFindings,
};
