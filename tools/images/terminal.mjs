// What a program writes to a terminal, as a page that a browser can take a picture of.

const BASIC = ['#1b1f24', '#e06c75', '#7cb668', '#d9b25f', '#61a0e0', '#c183d6', '#56b6c2', '#c8ccd4',
  '#7f8792', '#f08c94', '#9ad486', '#f0cf86', '#8fc0f2', '#dba6ea', '#84d3dc', '#ffffff'];
const [GROUND, TEXT] = ['#14171b', '#d6dae0'];

/** Colour `number` of a terminal with 256. */
function colourOf(number) {
  if (number < 16) return BASIC[number];
  if (number >= 232) return `rgb(${Array(3).fill(8 + 10 * (number - 232)).join()})`;
  const part = (step) => [0, 95, 135, 175, 215, 255][Math.floor((number - 16) / step) % 6];
  return `rgb(${part(36)},${part(6)},${part(1)})`;
}

/** The style after a sequence of attributes, such as 1;32. */
function styled(style, codes) {
  const next = { ...style };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i];
    if (code === 0) for (const name of Object.keys(next)) delete next[name];
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 4) next.line = true;
    else if (code === 7) next.reverse = true;
    else if (code === 22) delete next.bold, delete next.dim;
    else if (code === 24) delete next.line;
    else if (code === 27) delete next.reverse;
    else if (code === 39) delete next.text;
    else if (code === 49) delete next.ground;
    else if (code === 38 || code === 48) {
      next[code === 38 ? 'text' : 'ground'] = codes[i + 1] === 5 ? colourOf(codes[i + 2]) : `rgb(${codes.slice(i + 2, i + 5)})`;
      i += codes[i + 1] === 5 ? 2 : 4;
    } else if (code >= 30 && code < 38) next.text = colourOf(code - 30);
    else if (code >= 40 && code < 48) next.ground = colourOf(code - 40);
    else if (code >= 90 && code < 98) next.text = colourOf(code - 82);
    else if (code >= 100 && code < 108) next.ground = colourOf(code - 92);
  }
  return next;
}

const escaped = (text) => text.replace(/[&<>]/g, (letter) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[letter]);

function piece(text, style) {
  const [front, back] = style.reverse ? [style.ground ?? GROUND, style.text ?? TEXT] : [style.text, style.ground];
  const rules = [front && `color:${front}`, back && `background:${back}`, style.bold && 'font-weight:700',
    style.dim && 'opacity:.6', style.line && 'text-decoration:underline'].filter(Boolean);
  return rules.length === 0 ? escaped(text) : `<span style="${rules.join(';')}">${escaped(text)}</span>`;
}

/** HTML of text with colours. */
export function terminalPage(text) {
  let style = {};
  let body = '';
  for (const [, codes, words] of text.replaceAll('\x1b(B', '').replaceAll('\x0f', '').matchAll(/(?:\x1b\[([\d;]*)m)|([^\x1b]+)/g)) {
    if (words !== undefined) body += piece(words, style);
    else style = styled(style, (codes || '0').split(';').map(Number));
  }
  return `<!doctype html><meta charset="utf-8"><body style="margin:0;background:${GROUND}"><pre style="display:inline-block;margin:0;
    padding:12px 16px;color:${TEXT};background:${GROUND};font:14px/1.25 'DejaVu Sans Mono',monospace">${body}</pre>`;
}
