// A picture for a file, with a title over it and room around it.

import type { Picture } from '../../app/panel';
import { themeColours } from '../../look/colours';
import { svg } from '../../look/h';
import { CanvasPen, SvgPen, type Pen } from '../../look/pen';

const MARGIN = 16, TITLE = 32, SIZE = 13;

/** `draw` has `width` times `height` for itself. */
export function titledPicture(name: string, title: string, width: number, height: number, draw: (pen: Pen) => void): Picture {
  const drawTitle = (pen: Pen): void => pen.text(0, TITLE / 2 - 4, title, { colour: themeColours().text, weight: 'bold', size: SIZE, room: width });
  return {
    name,
    width: width + 2 * MARGIN,
    height: height + TITLE + 2 * MARGIN,
    draw(canvas) {
      const pen = new CanvasPen(canvas);
      canvas.save();
      canvas.translate(MARGIN, MARGIN);
      drawTitle(pen);
      canvas.translate(0, TITLE);
      draw(pen);
      canvas.restore();
    },
    drawSvg(parent) {
      const head = svg('g', { transform: `translate(${MARGIN} ${MARGIN})` }), body = svg('g', { transform: `translate(${MARGIN} ${MARGIN + TITLE})` });
      parent.append(head, body);
      drawTitle(new SvgPen(head));
      draw(new SvgPen(body));
    },
  };
}
