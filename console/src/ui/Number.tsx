/** Exact numbers: digits as they came, aligned by their column. */
import { grouped, price } from "../text/decimal";

interface Props {
  value: string | null | undefined;
}

/** A quantity; a dash if there is none. Copying gives the digits without commas. */
export function Quantity({ value }: Props) {
  return <span data-exact={value ?? undefined}>{value ? grouped(value) : "–"}</span>;
}

/** A price or an amount, with at least two digits after the point. */
export function Money({ value }: Props) {
  return <span data-exact={value ?? undefined}>{value ? price(value) : "–"}</span>;
}
