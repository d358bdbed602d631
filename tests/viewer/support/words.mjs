// Numbers as the page and the command line write them, computed here once more.

/** "5.25 GiB": each limit still belongs to the smaller unit. */
export function bytesText(size) {
  if (size <= 2 ** 10) return `${size} bytes`;
  const [unit, name] = size <= 2 ** 20 ? [2 ** 10, 'KiB'] : size <= 2 ** 30 ? [2 ** 20, 'MiB'] : [2 ** 30, 'GiB'];
  return `${(size / unit).toFixed(2)} ${name}`;
}

export const countText = (value) => value.toLocaleString('en-US');

export const oneLine = (text) => text.replace(/\s+/g, ' ').trim();
