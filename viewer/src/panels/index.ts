// The tabs, in the order in which they stand.

import type { PanelKind } from '../app/panel';
import { diff } from './diff/kind';
import { findings } from './findings/kind';
import { flame } from './flame/kind';
import { leaks } from './leaks/kind';
import { segments } from './segments/kind';
import { table } from './table/kind';
import { timeline } from './timeline/kind';
import { whatIf } from './what-if/kind';

export const PANELS: readonly PanelKind[] = [timeline, segments, table, flame, whatIf, leaks, diff, findings];
