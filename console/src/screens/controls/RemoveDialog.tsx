import { useSignal } from "@preact/signals";
import { ChangeButton, Denied, useChange } from "../../ui/Change";
import { Problem } from "../../ui/Common";
import { Dialog } from "../../ui/Dialog";
import { editOperation, placeTitle } from "../../ui/names";
import type { Place } from "../../ui/places";
import { removeRule, type Rule } from "./source";
import { parametersText } from "./terms";

interface Props {
  place: Place;
  rule: Rule;
  onClose: () => void;
  onRemoved: () => void;
}

/** Removing needs a reason; the history stays. */
export function RemoveDialog({ place, rule, onClose, onRemoved }: Props) {
  const reason = useSignal("");
  const change = useChange();
  const operation = editOperation(place.scope);
  const remove = async (event: Event) => {
    event.preventDefault();
    const isDone = await change.run(async () => {
      await removeRule(place, rule.code, reason.value.trim(), rule.version);
      return "";
    });
    if (isDone) onRemoved();
  };
  return (
    <Dialog title={`Remove ${rule.code} of ${placeTitle(place)}?`} onClose={onClose}>
      <form class="remove" onSubmit={(event) => void remove(event)}>
        <p>
          It says: {parametersText(rule.in_force.parameters)}. Without it, only the rules of other scopes apply. Its
          history stays, and it can be restored from there.
        </p>
        <label class="labelled">
          <span>Why</span>
          <input
            class="field"
            required
            maxLength={500}
            value={reason.value}
            onInput={(event) => {
              reason.value = event.currentTarget.value;
            }}
          />
        </label>
        {change.failure && <Problem failure={change.failure} />}
        <Denied operation={operation} what="remove rules here" />
        <div class="dialog-footer">
          <button type="button" class="button" onClick={onClose}>
            Keep it
          </button>
          <ChangeButton operation={operation} class="button stop" isBusy={change.isBusy} disabled={!reason.value.trim()}>
            {change.isBusy ? "Removing…" : `Remove version ${rule.version}`}
          </ChangeButton>
        </div>
      </form>
    </Dialog>
  );
}
