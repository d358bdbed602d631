// The picture that is shown, as a file: drawn again, not copied from the screen, so that it is sharp
// whatever the window is.

import { themeColours } from '../look/colours';
import { svg } from '../look/h';
import type { Picture, Table } from './panel';

const SCALE = 2;

/** "run.pickle" and "timeline" give "run-timeline.png". Only what every file system takes. */
export function fileName(recording: string, picture: string, ending: string): string {
  const base = recording.slice(Math.max(recording.lastIndexOf('/'), recording.lastIndexOf('\\')) + 1);
  const stem = base.replace(/(?<=[^])\.[^.]*$/, '');
  const safe = `${stem}-${picture}`.replace(/[^\p{L}\p{N}._-]+/gu, '_').replace(/^[._-]+/, '');
  return `${safe.slice(0, 120) || 'vramwise'}.${ending}`;
}

export function savePng(picture: Picture): Promise<Blob> {
  const canvas = document.createElement('canvas');
  canvas.width = Math.ceil(picture.width * SCALE);
  canvas.height = Math.ceil(picture.height * SCALE);
  const context = canvas.getContext('2d');
  if (context === null) return Promise.reject(new Error('this browser gives no canvas to draw on'));
  context.scale(SCALE, SCALE);
  context.fillStyle = themeColours().ground;
  context.fillRect(0, 0, picture.width, picture.height);
  picture.draw(context);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => {
      if (blob !== null) resolve(blob);
      else reject(new Error(`a picture of ${canvas.width} x ${canvas.height} pixels is too large for this browser`));
    }, 'image/png');
  });
}

// What XML 1.0 has no way to write: a recording's names may hold it, and a file with it would not open.
const NOT_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

export function svgText(picture: Picture): string {
  const { width, height } = picture;
  const root = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}` });
  root.appendChild(svg('rect', { width, height, fill: themeColours().ground }));
  picture.drawSvg(root);
  const text = new XMLSerializer().serializeToString(root).replace(NOT_XML, '\ufffd');
  return `<?xml version="1.0" encoding="UTF-8"?>\n${text}\n`;
}

/** By a link that is never seen: works in a page from a file too. */
export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.hidden = true;
  document.body.appendChild(link);
  link.click();
  link.remove();
  window.setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser may still be reading it
}

export async function exportPicture(picture: Picture | null, recording: string, ending: 'png' | 'svg', say: (text: string) => void): Promise<void> {
  if (picture === null || picture.width < 1 || picture.height < 1) {
    say('There is no picture to save here');
    return;
  }
  const name = fileName(recording, picture.name, ending);
  try {
    const blob = ending === 'png' ? await savePng(picture) : new Blob([svgText(picture)], { type: 'image/svg+xml' });
    download(blob, name);
    say(`Saved as ${name}`);
  } catch (error) {
    say(`Not saved: ${error instanceof Error ? error.message : String(error)}`);
  }
}

export function exportTable(table: Table | null, recording: string, say: (text: string) => void): void {
  if (table === null) {
    say('There is no table to save here');
    return;
  }
  const name = fileName(recording, table.name, 'csv');
  download(new Blob([table.csv], { type: 'text/csv' }), name);
  say(`Saved as ${name}`);
}
