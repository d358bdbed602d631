// The table for a file: its first rows with their bars.

import type { Picture } from '../../app/panel';
import type { Row } from '../../data/groups';
import { themeColours } from '../../look/colours';
import { categoryColour } from '../../look/palette';
import type { Pen } from '../../look/pen';
import { bytes, count, shareText } from '../../look/units';
import { titledPicture } from '../shared/picture';

const MOST = 60, LINE = 24, WIDTH = 1200;

function drawRow(pen: Pen, row: Row, inside: string, y: number, total: number): void {
  const { text, muted, line } = themeColours(), share = total > 0 ? row.bytes / total : 0;
  pen.text(104, y, bytes(row.bytes), { colour: text, align: 'right' });
  pen.rect(118, y - 5, 100 * share, 10, categoryColour(row.category));
  pen.text(270, y, shareText(share), { colour: muted, align: 'right' });
  pen.text(350, y, count(row.blocks), { colour: text, align: 'right' });
  pen.text(366, y, row.category, { colour: text, room: 84 });
  pen.text(456, y, inside === '' ? row.where : `${row.where}, ${inside}`, { colour: text, room: 430 });
  pen.text(896, y, row.file, { colour: muted, room: WIDTH - 896 });
  pen.line([0, y + LINE / 2, WIDTH, y + LINE / 2], line);
}

export function tablePicture(rows: readonly Row[], inside: ReadonlyMap<string, string>, total: number, title: string): Picture {
  const shown = rows.slice(0, MOST), left = rows.length - shown.length;
  const height = (shown.length + (left > 0 ? 1 : 0)) * LINE;
  return titledPicture('table', title, WIDTH, height, (pen) => {
    shown.forEach((row, i) => drawRow(pen, row, inside.get(row.key) ?? '', LINE / 2 + i * LINE, total));
    if (left > 0) pen.text(456, height - LINE / 2, `and ${count(left)} more rows`, { colour: themeColours().muted });
  });
}
