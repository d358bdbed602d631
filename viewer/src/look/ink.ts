// Text on a coloured ground.

function linear(part: number): number {
  const share = part / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}

/** Relative luminance of "#rrggbb", 0 to 1. */
export function luminance(colour: string): number {
  const value = parseInt(colour.slice(1), 16);
  return 0.2126 * linear(value >> 16) + 0.7152 * linear((value >> 8) & 255) + 0.0722 * linear(value & 255);
}

/** Black or white: what can be read better on it. */
export function inkOn(colour: string): string {
  const light = luminance(colour);
  return (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) ? '#000000' : '#ffffff';
}

/** "#rrggbb" between two colours: 0 is the first. */
export function mixed(first: string, second: string, share: number): string {
  const a = parseInt(first.slice(1), 16), b = parseInt(second.slice(1), 16);
  const part = (shift: number): string => {
    const from = (a >> shift) & 255, to = (b >> shift) & 255;
    return Math.round(from + (to - from) * share).toString(16).padStart(2, '0');
  };
  return `#${part(16)}${part(8)}${part(0)}`;
}
