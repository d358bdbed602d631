// Colours. Told apart with the common kinds of colour blindness, on a light and a dark ground, and
// never the only carrier of a meaning.

/** Okabe and Ito's eight without black, then lighter and darker ones of the same hues. */
export const DISTINCT: readonly string[] = [
  '#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#f0e442',
  '#4a5bb5', '#b37700', '#5fc9a6', '#8f4d76', '#9ad0f0', '#f08c4a', '#a89a1d',
];

/** For what has no colour of its own: no stack, "other". */
export const NEUTRAL = '#8a8f98';

const OF_CATEGORY: Readonly<Record<string, string>> = {
  weights: '#0072b2',
  optimizer: '#009e73',
  gradients: '#cc79a7',
  activations: '#e69f00',
  backward: '#d55e00',
  temporaries: '#d55e00',
  'kv-cache': '#56b4e9',
  data: '#f0e442',
  loaded: '#4a5bb5',
  workspace: '#5fc9a6',
  other: '#b0a08c',
  unknown: NEUTRAL,
};

export function categoryColour(category: string): string {
  return OF_CATEGORY[category] ?? NEUTRAL;
}

/** A line of rising lightness (after viridis): 0 to 1. */
export function ramp(share: number): string {
  const stops = [
    [68, 1, 84],
    [59, 82, 139],
    [33, 145, 140],
    [94, 201, 98],
    [253, 231, 37],
  ];
  const place = Math.max(0, Math.min(1, share)) * (stops.length - 1);
  const below = stops[Math.min(stops.length - 2, Math.floor(place))]!;
  const above = stops[Math.min(stops.length - 1, Math.floor(place) + 1)]!;
  const part = place - Math.min(stops.length - 2, Math.floor(place));
  const mix = (i: number): string =>
    Math.round(below[i]! + (above[i]! - below[i]!) * part).toString(16).padStart(2, '0');
  return `#${mix(0)}${mix(1)}${mix(2)}`;
}

/** Of a policy in What-if: the same wherever it is drawn. */
export const OF_POLICY: Readonly<Record<string, string>> = {
  recorded: '#56b4e9',
  native: '#d55e00',
  expandable: '#e69f00',
  vramwise: '#009e73',
};

/** 0xAABBGGRR, as a Uint32Array over the bytes of an ImageData has it on a little-endian machine. */
export function packed(colour: string): number {
  const value = parseInt(colour.slice(1), 16);
  return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}
