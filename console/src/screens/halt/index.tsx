/** Halt: what is stopped, one switch to stop or resume, and the proof that fills in. */
import { useSignal } from "@preact/signals";
import { useReading } from "../../api/reading";
import { changesControls, changesOrders, useEvents } from "../../live/use";
import { query } from "../../shell/router";
import { account, me, openAccounts } from "../../shell/session";
import { Code } from "../../ui/Code";
import { Empty, Loading, Problem } from "../../ui/Common";
import { covers, isComplete, type Place, placeIn, placeKey } from "../../ui/places";
import { PlaceChoice } from "../../ui/PlaceChoice";
import { useScreen } from "../../ui/screen";
import { type SwitchChange, switchCommands } from "./commands";
import { InForce } from "./InForce";
import { Latch } from "./Latch";
import { Past } from "./Past";
import { Proof } from "./Proof";
import { countWorking, type HaltInForce, readSwitches, type Switch, type Switches } from "./source";
import "./halt.css";

/** How many proofs are read at once for a halt of several accounts. */
const PROOFS_MAX = 8;

/** Where the switches cannot be read, stopping is still possible. */
const NOT_READ: Switches = { own: new Map(), inForce: [] };

const RANK: Record<string, number> = { ACTIVE: 0, REDUCE_ONLY: 1, HALTED: 2 };

function strictestWider(halts: readonly HaltInForce[], place: Place): HaltInForce | undefined {
  return halts
    .filter((halt) => covers(halt, place) && placeKey(halt) !== placeKey(place))
    .sort((a, b) => (RANK[b.status] ?? 0) - (RANK[a.status] ?? 0))[0];
}

/** Only one account: no choice is needed. */
function defaultAccount(): string | undefined {
  const [first, second] = openAccounts.value;
  return account.value?.id ?? (second ? undefined : first?.id);
}

function useWorking(place: Place): string | undefined {
  const key = isComplete(place) ? placeKey(place) : "";
  const reading = useReading(key, async (signal) => ({
    text: key ? await countWorking(place, signal) : undefined,
  }));
  useEvents(
    (event) => (place.scope === "ORGANIZATION" || event.account_id === place.account_id) && changesOrders(event),
    () => !reading.isLoading && reading.again(),
    2000,
  );
  return reading.data?.text;
}

function Proofs({ halt }: { halt: HaltInForce }) {
  const one = halt.account_id ?? account.value?.id;
  const of = one ? [one] : openAccounts.value.map(({ id }) => id);
  return (
    <>
      {of.slice(0, PROOFS_MAX).map((id) => (
        <Proof key={`${id} ${placeKey(halt)}`} account={id} halt={halt} />
      ))}
      {of.length > PROOFS_MAX && (
        <p class="dim">
          The proofs of the first {PROOFS_MAX} of {of.length} accounts are shown. Choose an account in the bar for another.
        </p>
      )}
    </>
  );
}

interface ChosenProps {
  place: Place;
  switches: Switches;
  again: () => void;
}

function Chosen({ place, switches, again }: ChosenProps) {
  const working = useWorking(place);
  const draft = useSignal<SwitchChange | undefined>(undefined);
  const made = useSignal<Switch | undefined>(undefined);
  const key = placeKey(place);
  const stored = switches.own.get(key);
  const never: Switch = { ...place, organization_id: "", status: "ACTIVE", cancel_working: false, version: 0 };
  const own = made.value && (stored?.version ?? 0) < made.value.version ? made.value : (stored ?? never);
  const onChanged = (changed: Switch) => {
    made.value = changed;
    again();
  };
  const halt: HaltInForce | undefined =
    own.status === "ACTIVE" ? strictestWider(switches.inForce, place) : { ...own, ...place };
  const ofAccount = place.account_id ?? account.value?.id;
  return (
    <>
      <Latch
        key={key}
        place={place}
        current={own}
        wider={strictestWider(switches.inForce, place)}
        isKnown={switches !== NOT_READ || !!made.value}
        working={working}
        onChanged={onChanged}
        onDraft={(change) => {
          draft.value = change;
        }}
      />
      {halt && <Proofs halt={halt} />}
      {ofAccount && <Past account={ofAccount} />}
      {draft.value && <Code title="The same as a command" texts={switchCommands(place, draft.value)} />}
    </>
  );
}

export default function Halt() {
  const reading = useReading("switches", readSwitches);
  useEvents(changesControls, reading.again);
  const place = placeIn(query.value, defaultAccount());
  const switches = reading.data ?? (reading.failure && NOT_READ);
  useScreen("halt", !!reading.data && !!me.value);
  return (
    <section class="screen halt" aria-labelledby="title">
      <div class="head">
        <div>
          <h1 id="title">Halt</h1>
          <p class="dim">The strictest switch of symbol, key, account, organization and platform applies.</p>
        </div>
      </div>
      {reading.failure && <Problem failure={reading.failure} again={reading.again} />}
      {(!reading.data || !me.value) && !reading.failure && <Loading what="the switches" />}
      {switches && me.value && (
        <>
          {reading.data && <InForce halts={switches.inForce} shown={placeKey(place)} />}
          <PlaceChoice place={place} />
          {isComplete(place) ? (
            <Chosen key={placeKey(place)} place={place} switches={switches} again={reading.again} />
          ) : (
            <div class="card">
              <Empty>
                <p>
                  <b>Choose what to stop:</b> an account, a symbol of an account, an API key, or the organization.
                </p>
              </Empty>
            </div>
          )}
        </>
      )}
    </section>
  );
}
