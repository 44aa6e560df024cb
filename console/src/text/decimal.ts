/**
 * Decimals as the API writes them: strings with up to 18 digits on either side of the point.
 * Nothing here makes a float of them, so what is shown, compared and copied is exact.
 */

const PLAIN = /^(-?)([0-9]+)(?:\.([0-9]+))?$/;

interface Parts {
  digits: bigint;
  scale: number;
}

export function isDecimal(text: unknown): text is string {
  return typeof text === "string" && PLAIN.test(text);
}

function partsOf(text: string): Parts {
  const found = PLAIN.exec(text);
  if (!found) throw new RangeError(`"${text}" is not a plain decimal`);
  const [, sign, whole = "", fraction = ""] = found;
  const digits = BigInt(whole + fraction);
  return { digits: sign ? -digits : digits, scale: fraction.length };
}

function atScale({ digits, scale }: Parts, wanted: number): bigint {
  return digits * 10n ** BigInt(wanted - scale);
}

function textOf(digits: bigint, scale: number): string {
  const sign = digits < 0n ? "-" : "";
  const text = (digits < 0n ? -digits : digits).toString().padStart(scale + 1, "0");
  if (!scale) return sign + text;
  const fraction = text.slice(-scale).replace(/0+$/, "");
  return sign + text.slice(0, -scale) + (fraction && `.${fraction}`);
}

/** Negative, 0 or positive, as `sort` expects. */
export function compare(a: string, b: string): number {
  const [first, second] = [partsOf(a), partsOf(b)];
  const scale = Math.max(first.scale, second.scale);
  const difference = atScale(first, scale) - atScale(second, scale);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** The sum without trailing zeros. */
export function sum(numbers: Iterable<string>): string {
  let [total, scale] = [0n, 0];
  for (const text of numbers) {
    const parts = partsOf(text);
    const wider = Math.max(scale, parts.scale);
    total = total * 10n ** BigInt(wider - scale) + atScale(parts, wider);
    scale = wider;
  }
  return textOf(total, scale);
}

export function negate(text: string): string {
  return isZero(text) ? text : text.startsWith("-") ? text.slice(1) : `-${text}`;
}

export function multiply(a: string, b: string): string {
  const [first, second] = [partsOf(a), partsOf(b)];
  return textOf(first.digits * second.digits, first.scale + second.scale);
}

export function isZero(text: string): boolean {
  return !/[1-9]/.test(text);
}

export function isNegative(text: string): boolean {
  return text.startsWith("-") && !isZero(text);
}

/**
 * How many thousandths `part` is of `whole`, rounded down; for bars only. Undefined if the whole is zero.
 * Not above `most`, because the result is a number.
 */
export function thousandths(part: string, whole: string, most = 100_000): number | undefined {
  const [first, second] = [partsOf(part), partsOf(whole)];
  if (second.digits <= 0n) return undefined;
  const scale = Math.max(first.scale, second.scale);
  const ratio = (atScale(first, scale) * 1000n) / atScale(second, scale);
  return ratio > BigInt(most) ? most : Number(ratio < 0n ? 0n : ratio);
}

/** The same number with a comma between thousands. All its digits stay; anything else is returned as it is. */
export function grouped(text: string): string {
  const found = PLAIN.exec(text);
  if (!found) return text;
  const [, sign, whole = "", fraction] = found;
  const thousands = whole.replace(/\B(?=([0-9]{3})+$)/g, ",");
  return sign + thousands + (fraction === undefined ? "" : `.${fraction}`);
}

/** A price: like grouped, with at least two digits after the point. */
export function price(text: string): string {
  if (!isDecimal(text)) return text;
  const [, fraction = ""] = text.split(".");
  return grouped(fraction.length >= 2 ? text : `${text.split(".")[0]}.${fraction.padEnd(2, "0")}`);
}
