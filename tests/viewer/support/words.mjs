// Numbers as the page and the command line write them, computed here once more.

/** "512 B", "24.0 MiB", "935 MiB", "5.25 GiB": as tests/data/numbers has it, but for halves. */
export function bytesText(size) {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let power = 0;
  while (power < 4 && size >= 1024 ** (power + 1)) power++;
  const value = size / 1024 ** power;
  const digits = power === 0 ? 0 : power >= 3 || value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${names[power]}`;
}

export const countText = (value) => value.toLocaleString('en-US');

export const oneLine = (text) => text.replace(/\s+/g, ' ').trim();
