import type { PanelKind } from '../../app/panel';
import { makeTimeline } from './panel';

export const timeline: PanelKind = {
  tab: 'timeline',
  title: 'Timeline',
  keys: [
    ['w  s', 'zoom in, zoom out'],
    ['a  d', 'move left, move right'],
    ['0', 'the whole run'],
    ['p', 'to the peak'],
    ['n  b', 'the next mark, the one before'],
    [',  .', 'move the cursor to the left, to the right'],
    ['Enter', 'pin the largest block at the cursor'],
    ['k  j', 'pin the block above, the one below'],
    ['wheel', 'zoom at the pointer'],
    ['drag', 'move; with Shift: zoom to what is selected'],
    ['click', 'pin the block, and set the cursor'],
  ],
  missing: (app) => (app.device().blocks.count === 0 ? `No block of ${app.device().name} is in the recording.` : null),
  make: makeTimeline,
};
