// What the proof part `typescript` runs: node cuts.mjs submit|follow <how many, or until which event>.
// The environment has OPENBELL_URL, OPENBELL_API_KEY and OPENBELL_ACCOUNT. Prints one line of JSON.
import { Client, OutcomeUnknown, Unreachable } from "../dist/index.js";

const { OPENBELL_URL: baseUrl, OPENBELL_API_KEY: apiKey, OPENBELL_ACCOUNT: account } = process.env;
const [what, number] = [process.argv[2], Number(process.argv[3])];
const AT_ONCE = 8;
// A client gives up after four attempts; the caller then does what the error advises.
const ADVICE_MAX = 20;
const client = new Client({ baseUrl, apiKey });

async function submit(reference, found) {
  let idempotencyKey;
  for (let time = 0; time < ADVICE_MAX; time++) {
    try {
      const action = await client.buy(account, "AAPL", 1, { client_reference_id: reference, idempotencyKey });
      return found.push({ reference, intent_id: action.intent_id, replayed: action.replayed });
    } catch (error) {
      if (!(error instanceof OutcomeUnknown || error instanceof Unreachable)) throw error;
      idempotencyKey = error.idempotencyKey ?? idempotencyKey;
    }
  }
  return undefined;
}

if (what === "submit") {
  const found = [];
  let next = 0;
  const work = async () => {
    while (next < number) await submit(`cut-${next++}`, found);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  console.log(JSON.stringify(found));
} else {
  const found = [];
  for await (const event of client.events(account, { start: "BEGINNING" })) {
    found.push(event.account_seq);
    if (event.account_seq >= number) break;
  }
  console.log(JSON.stringify(found));
}
