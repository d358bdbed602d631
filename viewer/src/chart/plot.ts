// A chart that answers: uPlot with our ticks and our theme. It gets numbers and colours only; the names
// of lines are in our own legends, as text.

import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import './plot.css';
import type { Picture } from '../app/panel';
import { themeColours } from '../look/colours';
import { h } from '../look/h';
import { paintCanvas, paintSvg } from './paint';
import { AREA_OPACITY, chartShapes } from './shapes';
import { isLevelInside, topOf, type ChartSeries, type ChartSpec, type ChartTheme } from './spec';
import { columnAt } from './thin';
import { roundBytes } from '../look/units';
import { byteTicks } from './ticks';

export interface PlotEvents {
  /** The pointer is over column `index` of xs; null: it left. */
  hover(index: number | null): void;
  /** A place of the axis was clicked, or chosen with the keys. */
  pick?(x: number): void;
  /** A range was dragged. */
  zoom?(from: number, to: number): void;
  /** Twice clicked, or Escape. */
  reset?(): void;
}

const LEAST_DRAG = 4; // pixels
const CROSS = 5;

function withAlpha(colour: string, alpha: number): string {
  return colour + Math.round(alpha * 255).toString(16).padStart(2, '0');
}

/** What needs another uPlot rather than other numbers. */
function styleOf(spec: ChartSpec, theme: ChartTheme): string {
  const series = spec.series.map((one) => [one.colour, one.width, one.dash, one.isFilled]);
  return JSON.stringify([series, theme.ground, theme.muted, theme.line, spec.isStepped, spec.xTitle]);
}

export class Plot {
  readonly element: HTMLElement;
  private plot: uPlot | null = null;
  private style = '';
  private spec: ChartSpec | null = null;
  private theme: ChartTheme = themeColours();
  /** The column that the keys went to, as long as the cursor stays where that put it: several columns may be one
   * instant, and the keys must get past them. */
  private moved: { readonly index: number; cursor: number | null | undefined } | null = null;

  constructor(
    label: string,
    private readonly events: PlotEvents,
  ) {
    this.element = h('div', {
      class: 'plot',
      tabindex: 0,
      role: 'group',
      'aria-label': label,
      onkeydown: (event: KeyboardEvent) => this.key(event),
    });
  }

  /** The width there is for columns. */
  get width(): number {
    return Math.max(200, Math.floor(this.element.clientWidth));
  }

  show(spec: ChartSpec): void {
    this.followMove(spec);
    this.spec = spec;
    this.theme = themeColours();
    const style = styleOf(spec, this.theme), size = { width: this.width, height: this.height };
    if (this.plot === null || style !== this.style) {
      this.plot?.destroy();
      this.style = style;
      this.plot = new uPlot(this.options(spec, size), this.data(spec), this.element);
      this.plot.over.addEventListener('click', (event) => this.click(event));
      this.plot.over.addEventListener('dblclick', () => this.events.reset?.());
      return;
    }
    if (this.plot.width !== size.width || this.plot.height !== size.height) this.plot.setSize(size);
    this.plot.setData(this.data(spec), true);
  }

  picture(name: string): Picture | null {
    const spec = this.spec;
    if (spec === null) return null;
    const width = this.width, height = Math.max(320, this.height);
    const shapes = chartShapes(spec, this.theme, width, height);
    return {
      name,
      width,
      height,
      draw: (canvas) => paintCanvas(canvas, shapes),
      drawSvg: (parent) => paintSvg(parent, shapes),
    };
  }

  private get height(): number {
    return Math.max(160, Math.floor(this.element.clientHeight));
  }

  private data(spec: ChartSpec): uPlot.AlignedData {
    return [[...spec.xs], ...spec.series.map((series) => [...series.values])];
  }

  private options(spec: ChartSpec, size: { width: number; height: number }): uPlot.Options {
    const { muted, line } = this.theme, font = '12px system-ui, sans-serif';
    const present = (): ChartSpec => this.spec ?? spec;
    const axis = { stroke: muted, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 5 } };
    return {
      ...size,
      padding: [10, 24, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false, dist: LEAST_DRAG } },
      scales: {
        x: { time: false, range: () => [present().from, Math.max(present().to, present().from + 1e-9)] },
        y: { range: () => [0, topOf(present())] },
      },
      series: [{}, ...spec.series.map((one) => this.series(one, spec.isStepped))],
      axes: [
        { ...axis, grid: { show: false }, size: 34, splits: () => [...present().xTicks], values: (_, at) => at.map((x) => present().xText(x)) },
        {
          ...axis,
          size: 72,
          splits: (self) => byteTicks(topOf(present()), Math.max(2, Math.min(8, self.height / 45))),
          values: (_, at) => at.map(roundBytes),
        },
      ],
      hooks: {
        draw: [(self) => this.drawOver(self)],
        setCursor: [(self) => this.hover(self)],
        setSelect: [(self) => this.select(self)],
      },
    };
  }

  private series(one: ChartSeries, isStepped: boolean): uPlot.Series {
    const paths = isStepped ? uPlot.paths.stepped?.({ align: 1 }) : uPlot.paths.linear?.();
    return {
      stroke: one.colour,
      width: one.width,
      dash: [...one.dash],
      points: { show: false },
      ...(one.isFilled ? { fill: withAlpha(one.colour, AREA_OPACITY) } : {}),
      ...(paths === undefined ? {} : { paths }),
    };
  }

  /** Limits, ends of lines and the cursor that all tabs share. */
  private drawOver(self: uPlot): void {
    const spec = this.spec;
    if (spec === null) return;
    const { ctx, bbox } = self, ratio = uPlot.pxRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const stroke = (colour: string, width: number, dash: number[], points: readonly number[]): void => {
      ctx.strokeStyle = colour;
      ctx.lineWidth = width * ratio;
      ctx.setLineDash(dash.map((length) => length * ratio));
      ctx.beginPath();
      ctx.moveTo(points[0]!, points[1]!);
      ctx.lineTo(points[2]!, points[3]!);
      ctx.stroke();
    };
    for (const level of spec.levels.filter((one) => isLevelInside(spec, one))) {
      const y = self.valToPos(level.value, 'y', true);
      stroke(level.colour, 1.5, [2, 2], [bbox.left, y, bbox.left + bbox.width, y]);
    }
    if (spec.cursor !== null) {
      const x = self.valToPos(spec.cursor, 'x', true);
      stroke(this.theme.muted, 1, [4, 3], [x, bbox.top, x, bbox.top + bbox.height]);
    }
    for (const mark of spec.marks) {
      const x = self.valToPos(mark.x, 'x', true), y = self.valToPos(mark.y, 'y', true), reach = CROSS * ratio;
      stroke(mark.colour, 2.5, [], [x - reach, y - reach, x + reach, y + reach]);
      stroke(mark.colour, 2.5, [], [x - reach, y + reach, x + reach, y - reach]);
    }
    ctx.restore();
  }

  private hover(self: uPlot): void {
    const left = self.cursor.left ?? -1, spec = this.spec;
    if (left < 0 || spec === null || spec.xs.length === 0) this.events.hover(null);
    else this.events.hover(this.indexAt(self.posToVal(left, 'x')));
  }

  /** Steps hold until the next one; other lines are read at the nearest point. */
  private indexAt(x: number): number {
    const { xs, isStepped } = this.spec!;
    const before = columnAt(xs, x);
    if (isStepped || before + 1 >= xs.length) return before;
    return x - xs[before]! > xs[before + 1]! - x ? before + 1 : before;
  }

  private select(self: uPlot): void {
    const { left, width } = self.select;
    if (width < LEAST_DRAG) return;
    const from = self.posToVal(left, 'x'), to = self.posToVal(left + width, 'x');
    self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.events.zoom?.(from, to);
  }

  private click(event: MouseEvent): void {
    const over = this.plot!.over.getBoundingClientRect();
    this.events.pick?.(this.plot!.posToVal(event.clientX - over.left, 'x'));
  }

  private key(event: KeyboardEvent): void {
    const spec = this.spec;
    if (spec === null || spec.xs.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const used = this.move(spec, event.key) || this.zoomBy(spec, event.key);
    if (!used) return;
    event.preventDefault();
    event.stopPropagation();
  }

  private followMove(spec: ChartSpec): void {
    if (this.moved === null) return;
    if (this.spec?.from !== spec.from || this.spec.to !== spec.to || this.spec.xs.length !== spec.xs.length) this.moved = null;
    else if (this.moved.cursor === undefined) this.moved.cursor = spec.cursor;
    else if (this.moved.cursor !== spec.cursor) this.moved = null;
  }

  private move(spec: ChartSpec, key: string): boolean {
    const by: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };
    const distance = by[key];
    if (distance === undefined || this.events.pick === undefined) return false;
    const last = spec.xs.length - 1;
    const present = this.moved?.index ?? columnAt(spec.xs, spec.cursor ?? spec.from);
    const index = Math.max(0, Math.min(last, present + distance));
    this.moved = { index, cursor: undefined };
    this.events.pick(spec.xs[index]!);
    this.events.hover(index);
    return true;
  }

  private zoomBy(spec: ChartSpec, key: string): boolean {
    if (this.events.zoom === undefined) return false;
    if (key === 'Escape') this.events.reset?.();
    else if (key !== '+' && key !== '-') return false;
    else {
      const half = ((spec.to - spec.from) / 2) * (key === '+' ? 0.5 : 2);
      const middle = spec.cursor !== null && spec.cursor >= spec.from && spec.cursor <= spec.to ? spec.cursor : (spec.from + spec.to) / 2;
      this.events.zoom(middle - half, middle + half);
    }
    return true;
  }
}
