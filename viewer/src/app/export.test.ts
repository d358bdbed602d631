// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { svg } from '../look/h';
import { exportPicture, exportTable, fileName, svgText } from './export';
import type { Picture } from './panel';

function picture(text: string): Picture {
  return { name: 'timeline', width: 300, height: 100, draw: () => undefined, drawSvg: (parent) => parent.appendChild(svg('text', { x: 1, 'data-name': text }, text)) };
}

function parse(text: string): Document {
  return new DOMParser().parseFromString(text, 'image/svg+xml');
}

describe('the name of a file', () => {
  it('is made of the recording and the panel', () => {
    expect(fileName('/data/run.pickle', 'timeline', 'png')).toBe('run-timeline.png');
    expect(fileName('C:\\data\\run.v2.hrec', 'flame', 'svg')).toBe('run.v2-flame.svg');
    expect(fileName('run', 'flame', 'svg')).toBe('run-flame.svg');
  });

  it('has nothing in it that leads elsewhere or that a file system refuses', () => {
    expect(fileName('../..', 'a', 'png')).toBe('a.png');
    expect(fileName('.hidden', 'a', 'png')).toBe('hidden-a.png');
    expect(fileName('a b\u0000:*?"<>|\n.pickle', '../x', 'png')).toBe('a_b_-.._x.png');
    expect(fileName('\u6a21\u578b.pickle', 'a', 'png')).toBe('\u6a21\u578b-a.png');
    expect(fileName('', '', 'png')).toBe('vramwise.png');
    expect(fileName('x'.repeat(500), 'a', 'png').length).toBeLessThan(130);
  });
});

describe('an SVG', () => {
  it('is a document of its own, of the size asked for, on the ground of the theme', () => {
    const root = parse(svgText(picture('main'))).documentElement;
    expect(root.namespaceURI).toBe('http://www.w3.org/2000/svg');
    expect(root.getAttribute('viewBox')).toBe('0 0 300 100');
    expect(root.firstElementChild!.localName).toBe('rect');
    expect(root.textContent).toBe('main');
  });

  it('holds any text as text', () => {
    const names = ['</text><script>alert(1)</script>', 'a & "b" \'c\' ]]>', '<!-- x -->', '\u{1f600}'];
    for (const name of names) {
      const root = parse(svgText(picture(name))).documentElement;
      expect(root.querySelector('script')).toBeNull();
      expect(root.textContent).toBe(name);
      expect(root.querySelector('text')!.getAttribute('data-name')).toBe(name);
    }
  });

  it('is well formed even with characters that XML does not have', () => {
    const root = parse(svgText(picture('a\u0000b\u001bc\ud800d\udc00e\uffff'))).documentElement;
    expect(root.localName).toBe('svg');
    expect(root.textContent).toBe('a\ufffdb\ufffdc\ufffdd\ufffde\ufffd');
  });
});

describe('saving', () => {
  const said: string[] = [], links: { name: string; href: string }[] = [];
  const say = (text: string): unknown => said.push(text);

  beforeEach(() => {
    said.length = links.length = 0;
    URL.createObjectURL = vi.fn(() => 'blob:x');
    URL.revokeObjectURL = vi.fn();
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (this: HTMLAnchorElement) {
      links.push({ name: this.download, href: this.href });
    });
  });
  afterEach(() => vi.restoreAllMocks());

  it('downloads a blob and says its name', async () => {
    await exportPicture(picture('x'), 'run.pickle', 'svg', say);
    expect(links).toEqual([{ name: 'run-timeline.svg', href: 'blob:x' }]);
    expect(said).toEqual(['Saved as run-timeline.svg']);
    expect(document.querySelector('a')).toBeNull();
  });

  it('draws a PNG at twice the size', async () => {
    const drawn: unknown[] = [];
    const context = { scale: (x: number, y: number) => drawn.push([x, y]), fillRect: () => undefined };
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(context as never);
    vi.spyOn(HTMLCanvasElement.prototype, 'toBlob').mockImplementation(function (this: HTMLCanvasElement, done) {
      drawn.push([this.width, this.height]);
      done(new Blob(['png']));
    });
    await exportPicture({ ...picture('x'), draw: (canvas) => drawn.push(canvas === (context as never)) }, 'run.pickle', 'png', say);
    expect(drawn).toEqual([[2, 2], true, [600, 200]]);
    expect(links[0]!.name).toBe('run-timeline.png');
  });

  it('downloads a table as CSV, where there is one', () => {
    exportTable({ name: 'leaks', csv: 'a\n1\n' }, 'run.pickle', say);
    exportTable(null, 'run.pickle', say);
    expect(links.map((link) => link.name)).toEqual(['run-leaks.csv']);
    expect(said).toEqual(['Saved as run-leaks.csv', 'There is no table to save here']);
  });

  it('says why there is no file', async () => {
    await exportPicture(null, 'run', 'png', say);
    await exportPicture({ ...picture('x'), width: 0 }, 'run', 'svg', say);
    await exportPicture({ ...picture('x'), drawSvg: () => { throw new Error('too much'); } }, 'run', 'svg', say);
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue({ scale() {}, fillRect() {} } as never);
    vi.spyOn(HTMLCanvasElement.prototype, 'toBlob').mockImplementation((done) => done(null));
    await exportPicture(picture('x'), 'run', 'png', say);
    expect(links).toEqual([]);
    expect(said).toEqual(['There is no picture to save here', 'There is no picture to save here', 'Not saved: too much', 'Not saved: a picture of 600 x 200 pixels is too large for this browser']);
  });
});
