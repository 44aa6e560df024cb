/** The four order types, with exact numbers. */
import { NotConfigured } from "./errors.js";
import type { components } from "./schema.js";

type Schemas = components["schemas"];
/** A whole number, or any decimal as a string: a number such as 187.1 has no exact decimal value. */
export type Quantity = number | bigint | string;
export type Spec = Schemas["Spec"];
export type TimeInForce = Schemas["TimeInForce"];
export interface OrderOptions {
  time_in_force?: TimeInForce;
}

// The numbers that the API accepts: no sign, no exponent, at most 18 digits on either side of the point.
const PLAIN = /^(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?$/;

export const market = (quantity: Quantity, options: OrderOptions = {}): Spec => ({
  Market: { quantity: exact(quantity, "quantity"), ...options },
});

export const limit = (quantity: Quantity, price: Quantity, options: OrderOptions = {}): Spec => ({
  Limit: { quantity: exact(quantity, "quantity"), price: exact(price, "price"), ...options },
});

export const stop = (quantity: Quantity, stopPrice: Quantity, options: OrderOptions = {}): Spec => ({
  Stop: { quantity: exact(quantity, "quantity"), stop_price: exact(stopPrice, "stopPrice"), ...options },
});

export const stopLimit = (
  quantity: Quantity,
  stopPrice: Quantity,
  price: Quantity,
  options: OrderOptions = {},
): Spec => ({
  StopLimit: {
    quantity: exact(quantity, "quantity"),
    stop_price: exact(stopPrice, "stopPrice"),
    price: exact(price, "price"),
    ...options,
  },
});

/** The number as the API takes it, digit for digit. */
function exact(number: Quantity, name: string): string {
  if (typeof number === "number" && !Number.isSafeInteger(number)) {
    throw new NotConfigured(
      `${name} ${number} has no exact decimal value, and Openbell never rounds a number that trades.`,
      `Write ${name} as a string, such as "187.50".`,
    );
  }
  const text = String(number);
  if (!PLAIN.test(text) || !/[1-9]/.test(text)) {
    throw new NotConfigured(
      `${name} must be a plain decimal above zero with at most 18 digits on either side of the point, not "${text}".`,
      "Correct it; nothing was sent.",
    );
  }
  return text;
}
