// The painted blocks on a canvas, in its device pixels or, while they move, in CSS pixels.

import { Levels } from '../../picture/levels';
import { blockOf, colourImage, Sweep } from '../../picture/sweep';
import type { Device } from '../../data/model';
import { isInside, type Plot } from './plot';

/** While moving, a frame that takes longer is painted with every second column. */
const SLOW_MS = 28;

export class BlockPicture {
  readonly sweep = new Sweep();
  private readonly levels = new Map<Device, Levels>();
  private image: ImageData | null = null;
  private scratch: HTMLCanvasElement | null = null;
  private isSlow = false;
  private plot: Plot | null = null;
  /** Whether the last frame was coarser than the screen. */
  isCoarse = false;

  levelsOf(device: Device): Levels {
    let levels = this.levels.get(device);
    if (levels === undefined) this.levels.set(device, (levels = new Levels(device.blocks)));
    return levels;
  }

  /** Into a context whose unit is a CSS pixel, `ratio` device pixels. */
  draw(context: CanvasRenderingContext2D, ratio: number, device: Device, plot: Plot, colours: Int32Array, isMoving: boolean): void {
    const began = performance.now();
    const fineLeft = Math.round(plot.left * ratio), fineTop = Math.round(plot.top * ratio);
    const fineWidth = Math.max(1, Math.round(plot.width * ratio)), fineHeight = Math.max(1, Math.round(plot.height * ratio));
    const divide = isMoving && this.isSlow ? 2 : 1;
    const columns = isMoving ? Math.max(1, Math.round(Math.min(fineWidth, plot.width) / divide)) : fineWidth;
    const rows = isMoving ? Math.max(1, Math.round(Math.min(fineHeight, plot.height))) : fineHeight;
    this.sweep.run(this.levelsOf(device), {
      from: plot.from,
      to: plot.to,
      columns,
      rows,
      bytesPerRow: plot.highest / rows,
      lastInstant: device.lastInstant,
    });
    if (this.image === null || this.image.width !== columns || this.image.height !== rows) this.image = new ImageData(columns, rows);
    colourImage(this.sweep, colours, new Int32Array(this.image.data.buffer));
    this.plot = plot;
    this.isCoarse = columns < fineWidth || rows < fineHeight;
    if (this.isCoarse) this.stretch(context, fineLeft, fineTop, fineWidth, fineHeight);
    else context.putImageData(this.image, fineLeft, fineTop);
    if (isMoving) this.isSlow = performance.now() - began > (this.isSlow ? SLOW_MS / 2 : SLOW_MS);
  }

  private stretch(context: CanvasRenderingContext2D, left: number, top: number, width: number, height: number): void {
    const image = this.image!;
    this.scratch ??= document.createElement('canvas');
    if (this.scratch.width !== image.width || this.scratch.height !== image.height) {
      this.scratch.width = image.width;
      this.scratch.height = image.height;
    }
    this.scratch.getContext('2d')?.putImageData(image, 0, 0);
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.scratch, left, top, width, height);
    context.restore();
  }

  /** The block painted there, in the last frame; the place in CSS pixels. */
  blockAt(x: number, y: number): number | null {
    const plot = this.plot;
    if (plot === null || !isInside(plot, x, y)) return null;
    return blockOf(this.sweep.at(this.columnAt(x)!, this.rowAt(y)));
  }

  /** The instant whose stack is painted there; null beside the run. */
  instantAt(x: number): number | null {
    const column = this.columnAt(x);
    const instant = column === null ? -1 : this.sweep.instants[column]!;
    return instant < 0 ? null : instant;
  }

  private columnAt(x: number): number | null {
    const plot = this.plot;
    if (plot === null || x < plot.left || x >= plot.left + plot.width) return null;
    return Math.floor(((x - plot.left) / plot.width) * this.sweep.frame.columns);
  }

  private rowAt(y: number): number {
    const plot = this.plot!, rows = this.sweep.frame.rows;
    return rows - 1 - Math.floor(((y - plot.top) / plot.height) * rows);
  }

  /** Where a block is painted, a box for each run of columns in which it stays; CSS pixels. */
  boxesOf(block: number): { x: number; y: number; width: number; height: number }[] {
    const plot = this.plot, { columns, rows } = this.sweep.frame, { pixels } = this.sweep;
    const boxes: { x: number; y: number; width: number; height: number }[] = [];
    if (plot === null) return boxes;
    const across = plot.width / columns, down = plot.height / rows, plain = 2 * block + 2;
    let low = 0, lowBefore = -1, highBefore = -1;
    for (let x = 0; x < columns; x++) {
      const base = x * rows;
      // It is mostly where it was in the column before.
      if (pixels[base + low]! >>> 1 !== plain >>> 1 || (low > 0 && pixels[base + low - 1]! >>> 1 === plain >>> 1)) {
        low = 0;
        while (low < rows && pixels[base + low]! >>> 1 !== plain >>> 1) low++;
      }
      if (low === rows) {
        low = 0;
        lowBefore = highBefore = -1;
        continue;
      }
      let high = low + 1;
      while (high < rows && pixels[base + high]! >>> 1 === plain >>> 1) high++;
      if (low === lowBefore && high === highBefore) boxes[boxes.length - 1]!.width += across;
      else boxes.push({ x: plot.left + x * across, y: plot.top + (rows - high) * down, width: across, height: (high - low) * down });
      lowBefore = low;
      highBefore = high;
    }
    return boxes;
  }
}
