// A screenshot as a PNG of at most 256 colours: less than half of its size, and to the eye the same. The most
// frequent colours stay as they are, and so do those that would be missed most, such as a small square in a
// legend; each of the others, nearly all of them in the edges of letters, becomes the nearest of those.

import { crc32, deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
const MOST_COLOURS = 256;
const FREQUENT_COLOURS = 96; // the rest is chosen by how much it would be missed

function* chunksOf(png) {
  for (let at = SIGNATURE.length; at < png.length; ) {
    const size = png.readUInt32BE(at);
    yield { name: png.toString('latin1', at + 4, at + 8), data: png.subarray(at + 8, at + 8 + size) };
    at += size + 12;
  }
}

function chunk(name, data) {
  const piece = Buffer.alloc(data.length + 12);
  piece.writeUInt32BE(data.length, 0);
  piece.write(name, 4, 'latin1');
  data.copy(piece, 8);
  piece.writeUInt32BE(crc32(piece.subarray(4, data.length + 8)), data.length + 8);
  return piece;
}

/** What a filter of the format predicts from the bytes to the left, above, and above to the left. */
function predicted(filter, left, up, corner) {
  if (filter === 1) return left;
  if (filter === 2) return up;
  if (filter === 3) return (left + up) >> 1;
  if (filter === 0) return 0;
  const guess = left + up - corner;
  const [a, b, c] = [left, up, corner].map((each) => Math.abs(guess - each));
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

/** The pixels of a PNG that Chromium wrote, each a number 0xRRGGBB. */
function pixelsOf(png) {
  const chunks = [...chunksOf(png)];
  const header = chunks.find(({ name }) => name === 'IHDR').data;
  const [width, height, depth, kind] = [header.readUInt32BE(0), header.readUInt32BE(4), header[8], header[9]];
  if (depth !== 8 || (kind !== 2 && kind !== 6) || header[12] !== 0) throw new Error(`expected 8 bits of RGB or RGBA, found ${depth} bits of kind ${kind}`);
  const step = kind === 2 ? 3 : 4;
  const bytes = inflateSync(Buffer.concat(chunks.filter(({ name }) => name === 'IDAT').map(({ data }) => data)));
  const pixels = new Uint32Array(width * height);
  let above = new Uint8Array(width * step);
  for (let y = 0; y < height; y++) {
    const begin = y * (width * step + 1);
    const row = new Uint8Array(width * step);
    for (let x = 0; x < row.length; x++) {
      const left = x < step ? 0 : row[x - step];
      row[x] = bytes[begin + 1 + x] + predicted(bytes[begin], left, above[x], x < step ? 0 : above[x - step]);
    }
    for (let x = 0; x < width; x++) pixels[y * width + x] = (row[x * step] << 16) | (row[x * step + 1] << 8) | row[x * step + 2];
    above = row;
  }
  return { width, height, pixels };
}

function distance(a, b) {
  const [red, green, blue] = [(a >> 16) - (b >> 16), ((a >> 8) & 255) - ((b >> 8) & 255), (a & 255) - (b & 255)];
  return 2 * red * red + 4 * green * green + blue * blue;
}

/** The colours that are kept, and for every colour the place of the one that stands for it. */
function paletteOf(pixels) {
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const all = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([colour, count]) => ({ colour, count, place: 0, apart: Infinity }));
  const kept = [];
  const keep = (colour) => {
    for (const each of all) {
      const apart = distance(each.colour, colour);
      if (apart < each.apart) Object.assign(each, { apart, place: kept.length });
    }
    kept.push(colour);
  };
  for (const { colour } of all.slice(0, FREQUENT_COLOURS)) keep(colour);
  while (kept.length < Math.min(MOST_COLOURS, all.length)) {
    const missed = all.reduce((worst, each) => (each.apart * each.count > worst.apart * worst.count ? each : worst));
    if (missed.apart === 0) break;
    keep(missed.colour);
  }
  return { kept, places: new Map(all.map(({ colour, place }) => [colour, place])) };
}

export function withPalette(png) {
  const { width, height, pixels } = pixelsOf(png);
  const { kept, places } = paletteOf(pixels);
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = places.get(pixels[y * width + x]);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3], 8); // bits, and a palette
  const colours = Buffer.from(kept.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  return Buffer.concat([SIGNATURE, chunk('IHDR', header), chunk('PLTE', colours),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })), chunk('IEND', Buffer.alloc(0))]);
}
