/** Addresses of screens that other screens link to. */

interface Placed {
  scope: string;
  account_id?: string;
  symbol?: string;
  api_key_id?: string;
}

/** Where a place is halted and resumed. */
export function haltAddress({ scope, account_id, symbol, api_key_id }: Placed): string {
  const query = new URLSearchParams({ scope });
  const named = { account_id, symbol, api_key_id, account: account_id, key: api_key_id };
  for (const [name, value] of Object.entries(named)) if (value) query.set(name, value);
  return `/halt?${query.toString()}`;
}
