// Everything of the picture that is lines and text: drawn over the blocks.

import type { ThemeColours } from '../../look/colours';
import { timeAt, type Highest } from '../../data/live';
import type { Device, Stacks } from '../../data/model';
import { bytes } from '../../look/units';
import { byteTicks, instantTicks, stepOf, stepTicks, timeText } from '../../picture/ticks';
import { eventsIn, type EventText } from './events';
import { cornersOf, highestLive, highestOfLine } from './lines';
import { drawMarks, type MarkGroup } from './marks';
import { shortened, type Pen } from './pen';
import { instantWidth, laneAt, xOf, yOf, type Lanes, type Plot } from './plot';

const EVENT_FROM = 84; // CSS pixels of an instant, to write what it was

export interface Scene {
  readonly device: Device;
  readonly stacks: Stacks;
  readonly highest: Highest;
  readonly plot: Plot;
  readonly lanes: Lanes;
  readonly groups: readonly MarkGroup[];
}

export function lanesOf(device: Device): Lanes {
  return { hasTime: device.timeUs.length > 0, hasSteps: device.stepEnds.length > 0 };
}

function drawBytes(pen: Pen, plot: Plot, colours: ThemeColours): void {
  for (const { value, text } of byteTicks(plot.highest, Math.max(2, Math.floor(plot.height / 48)))) {
    const y = Math.round(yOf(plot, value)) + 0.5;
    pen.line([[plot.left - 4, y], [plot.left, y]], { colour: colours.muted });
    if (value > 0) pen.line([[plot.left, y], [plot.left + plot.width, y]], { colour: colours.text, alpha: 0.1 });
    pen.text(plot.left - 8, y, text, { colour: colours.muted, align: 'right' });
  }
}

function drawInstants(pen: Pen, scene: Scene, colours: ThemeColours): void {
  const { plot, device, lanes } = scene, bottom = plot.top + plot.height;
  if (!device.header.has_trace) return;
  pen.text(plot.left - 8, laneAt(plot, 0), 'event', { colour: colours.muted, align: 'right' });
  if (lanes.hasTime) pen.text(plot.left - 8, laneAt(plot, 1), 'time', { colour: colours.muted, align: 'right' });
  const ticks = instantTicks({ from: Math.max(0, plot.from - 1), to: Math.max(0, plot.to - 1) }, plot.width / 92), step = (ticks[1]?.value ?? 1) - (ticks[0]?.value ?? 0);
  const write = (x: number, lane: number, text: string, colour: string): void => {
    const half = pen.widthOf(text) / 2, align = x + half > plot.left + plot.width ? 'right' : x - half < plot.left ? 'left' : 'center';
    pen.text(x, laneAt(plot, lane), text, { colour, align });
  };
  for (const { value, text } of ticks) {
    const instant = value + 1, x = xOf(plot, instant); // behind the event
    if (x < plot.left - 0.5 || x > plot.left + plot.width + 0.5) continue;
    pen.line([[x, bottom], [x, bottom + 5]], { colour: colours.muted });
    write(x, 0, text, colours.text);
    const time = timeAt(device, instant), next = timeAt(device, instant + step);
    if (time !== null) write(x, 1, timeText(time, (next ?? 0) > time ? next! - time : 1e9), colours.muted);
  }
}

function stepWords(device: Device, plot: Plot): string {
  const step = stepOf(device.stepEnds, Math.floor(plot.from));
  return step > device.stepEnds.length ? 'after the last step' : `within step ${step}`;
}

function drawSteps(pen: Pen, scene: Scene, colours: ThemeColours): void {
  const { plot, device, lanes } = scene, lane = lanes.hasTime ? 2 : 1;
  if (!lanes.hasSteps) return;
  const y = laneAt(plot, lane), bottom = plot.top + plot.height;
  pen.text(plot.left - 8, y, 'step', { colour: colours.muted, align: 'right' });
  for (const { value } of stepTicks(device.stepEnds, plot, plot.width / 5))
    pen.line([[xOf(plot, value), y - 8], [xOf(plot, value), y - 5]], { colour: colours.muted });
  const named = stepTicks(device.stepEnds, plot, plot.width / 44);
  if (named.length === 0) pen.text(plot.left + plot.width / 2, y, stepWords(device, plot), { colour: colours.text, align: 'center' });
  for (const { value, text } of named) {
    const x = xOf(plot, value);
    if (x < plot.left || x > plot.left + plot.width) continue;
    pen.line([[x, plot.top], [x, bottom]], { colour: colours.text, alpha: 0.16 });
    pen.text(x - 3, y, text, { colour: colours.text, align: 'right' });
    pen.line([[x, y - 7], [x, y + 6]], { colour: colours.muted });
  }
}

function drawPhases(pen: Pen, { plot, device }: Scene, colours: ThemeColours): void {
  let taken = plot.left;
  device.phaseEnds.forEach((end, i) => {
    if (end < plot.from || end > plot.to + 1) return;
    const x = xOf(plot, end), words = `phase ${i + 1} ends`;
    pen.line([[x, plot.top], [x, plot.top + plot.height]], { colour: colours.text, width: 1.5, dash: [7, 4], alpha: 0.6 });
    if (x - 11 - pen.widthOf(words) < taken) return;
    pen.text(x - 5, plot.top + plot.height - 10, words, { colour: colours.text, align: 'right', ground: colours.ground });
    taken = x;
  });
}

function nameReserved(pen: Pen, reserved: Float64Array, plot: Plot, limit: number | null, colours: ThemeColours): void {
  let place = -1, above = 0;
  reserved.forEach((value, x) => {
    if (value > plot.highest) above = Math.max(above, value);
    else if (value > (reserved[place] ?? -1)) place = x;
  });
  const style = { colour: colours.accent, ground: colours.ground };
  if (place >= 0) {
    const x = plot.left + (place / reserved.length) * plot.width + 6, y = yOf(plot, reserved[place]!);
    const isRight = x > plot.left + plot.width - 60, isNearLimit = limit !== null && Math.abs(yOf(plot, limit) - y) < 26;
    pen.text(isRight ? x - 12 : x, isNearLimit || y - 9 < plot.top + 6 ? y + 10 : y - 9, 'reserved', { ...style, align: isRight ? 'right' : 'left' });
  }
  const higher = [above > 0 ? `reserved: up to ${bytes(above)}` : '', limit !== null && limit > plot.highest ? `limit: ${bytes(limit)}` : ''];
  const words = higher.filter((text) => text !== '').join(', ');
  if (words !== '') pen.text(plot.left + plot.width - 8, plot.top + 9, `above this: ${words}`, { ...style, align: 'right' });
}

function drawLines(pen: Pen, scene: Scene, colours: ThemeColours): void {
  const { plot, device, highest } = scene, { header } = device;
  const clip = (values: Float64Array): Float64Array => values.map((value) => (value > plot.highest ? NaN : value));
  for (const line of cornersOf(highestLive(highest, plot, plot.width, device.lastInstant), plot)) pen.line(line, { colour: colours.text, alpha: 0.75 });
  const reserved = highestOfLine(device.reserved, plot, plot.width, device.lastInstant);
  for (const line of cornersOf(clip(reserved), plot)) pen.line(line, { colour: colours.accent, width: 1.5 });
  if (instantWidth(plot) < EVENT_FROM) nameReserved(pen, reserved, plot, header.limit_bytes, colours); // else events are written there
  if (header.limit_bytes !== null && header.limit_bytes <= plot.highest) {
    const y = yOf(plot, header.limit_bytes);
    pen.line([[plot.left, y], [plot.left + plot.width, y]], { colour: colours.danger, width: 1.5, dash: [6, 4] });
    const words = shortened(pen, `limit: ${header.limit_text ?? ''}`, plot.width - 20);
    pen.text(plot.left + plot.width - 8, Math.max(plot.top + 8, y - 9), words, { colour: colours.danger, align: 'right', ground: colours.ground });
  }
}

let cache: { device: Device; first: number; last: number; texts: EventText[] } | null = null;

function drawEvents(pen: Pen, { plot, device, stacks }: Scene, colours: ThemeColours): void {
  const width = instantWidth(plot);
  if (width < EVENT_FROM) return;
  const first = Math.floor(plot.from), last = Math.ceil(plot.to + 1);
  if (cache === null || cache.device !== device || cache.first !== first || cache.last !== last)
    cache = { device, first, last, texts: eventsIn(device, stacks, first, last) };
  for (const { instant, what, size, where } of cache.texts) {
    const x = xOf(plot, instant), left = Math.max(plot.left, x), room = Math.min(x + width, plot.left + plot.width) - left - 10;
    if (x > plot.left - 1) pen.line([[x, plot.top], [x, plot.top + plot.height]], { colour: colours.text, alpha: 0.25, dash: [2, 3] });
    if (room < 30) continue;
    [what, size, where].forEach((text, i) => {
      if (text !== '') pen.text(left + 5, plot.top + 10 + 15 * i, shortened(pen, text, room), { colour: i < 2 ? colours.text : colours.muted, ground: colours.ground });
    });
  }
}

export function drawAxes(pen: Pen, scene: Scene, colours: ThemeColours): void {
  const { plot } = scene;
  drawBytes(pen, plot, colours);
  drawSteps(pen, scene, colours);
  drawInstants(pen, scene, colours);
  drawLines(pen, scene, colours);
  drawPhases(pen, scene, colours);
  drawMarks(pen, scene.groups, plot, colours);
  drawEvents(pen, scene, colours);
  pen.line([[plot.left, plot.top], [plot.left, plot.top + plot.height], [plot.left + plot.width, plot.top + plot.height]], { colour: colours.muted });
}
