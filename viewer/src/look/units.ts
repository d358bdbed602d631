// Numbers for people, by the rules of src/base/human_units.h: tests/data/numbers has the cases that both must pass.

/** value / unit * 10^decimals, rounded; halves go to the even number, where toFixed() would round 1.125 up. */
function scaled(value: number, unit: number, decimals: number): number {
  const whole = Math.floor(value / unit), part = (value - whole * unit) * 10 ** decimals;
  const result = whole * 10 ** decimals + Math.floor(part / unit), twiceTheRest = (part % unit) * 2;
  return twiceTheRest > unit || (twiceTheRest === unit && result % 2 !== 0) ? result + 1 : result;
}

/** The decimals with which a value has three digits: "1.78", "13.4", "141". */
function threeDigits(value: number, unit: number): number {
  let decimals = 2;
  while (decimals > 0 && scaled(value, unit, decimals) >= 1000) decimals--;
  return decimals;
}

function written(value: number, unit: number, decimals: number, name: string): string {
  return `${(scaled(value, unit, decimals) / 10 ** decimals).toFixed(decimals)} ${name}`;
}

const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
const FIRST_WITH_TWO_DECIMALS = SIZES.indexOf('GiB');

/** "512 B", "24.0 MiB", "935 MiB", "15.00 GiB": three digits in KiB and MiB, two decimals from GiB up, never 1024 of a unit. */
export function bytes(size: number): string {
  if (size < 0) return `-${bytes(-size)}`; // a difference
  let power = 0;
  while (power < SIZES.length - 1 && size >= 1024 ** (power + 1)) power++;
  const unit = 1024 ** power;
  const decimals = power >= FIRST_WITH_TWO_DECIMALS ? 2 : power === 0 ? 0 : threeDigits(size, unit);
  if (scaled(size, unit, decimals) >= 1024 * 10 ** decimals) return `1.00 ${SIZES[power + 1]}`;
  return written(size, unit, decimals, SIZES[power]!);
}

/** A round size at an axis or in a legend: "0", "512 MiB", "1.5 GiB". */
export function roundBytes(size: number): string {
  if (size === 0) return '0';
  let power = 0;
  while (power < SIZES.length - 1 && Math.abs(size) >= 1024 ** (power + 1)) power++;
  return `${Number((size / 1024 ** power).toFixed(3))} ${SIZES[power]}`;
}

export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

const TIMES: readonly (readonly [number, string])[] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'us'], [1, 'ns']];

function longDuration(seconds: number): string {
  const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  const two = (first: number, name: string, second: number, secondName: string): string =>
    `${first} ${name}${second === 0 ? '' : ` ${second} ${secondName}`}`;
  if (days > 0) return two(days, 'd', hours % 24, 'h');
  if (hours > 0) return two(hours, 'h', minutes % 60, 'min');
  return two(minutes, 'min', minutes < 10 ? seconds % 60 : 0, 's');
}

/** A duration in microseconds: "12.3 ms", "45.0 s"; from a minute up two units, "2 h 10 min". */
export function duration(us: number): string {
  const ns = Math.round(us * 1000);
  if (ns === 0) return '0 s';
  if (scaled(ns, 1e9, 1) >= 600) return longDuration(scaled(ns, 1e9, 0));
  let place = 0;
  while (place + 1 < TIMES.length && scaled(ns, TIMES[place + 1]![0], 0) < 1000) place++;
  const [unit, name] = TIMES[place]!;
  return written(ns, unit, unit === 1 ? 0 : threeDigits(ns, unit), name);
}

/** A share of 1: "0.8 %", "45 %". */
export function shareText(part: number): string {
  const percent = Math.abs(100 * part);
  if (!Number.isFinite(percent)) return '?';
  if (percent > 0 && percent < 0.05) return '<0.1 %';
  const sign = part < 0 ? '-' : '';
  if (percent === 0 || percent >= 9.95) return `${sign}${Math.floor(percent + 0.5)} %`;
  return `${sign}${(Math.floor(percent * 10 + 0.5) / 10).toFixed(1)} %`;
}
