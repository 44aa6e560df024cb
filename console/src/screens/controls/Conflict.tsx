/** Somebody saved another version meanwhile: both side by side, and what to do. */
import { capital } from "../../text/words";
import { who } from "../../ui/names";
import { Time } from "../../ui/Time";
import { Differences } from "./Differences";
import { type RuleForm, versionOf } from "./form";
import type { Rule } from "./source";
import { differences } from "./terms";

export function Conflict({ form, theirs }: { form: RuleForm; theirs: Rule | undefined }) {
  const keep = () => form.rebase(theirs);
  const take = () => {
    form.rebase(theirs);
    form.load(theirs?.in_force);
  };
  return (
    <section class="conflict" role="alert" aria-label="Two versions">
      <p>
        {theirs ? (
          <>
            <b>
              {capital(who(theirs.principal_type, theirs.principal_id))} saved version {theirs.version} meanwhile
            </b>{" "}
            (<Time at={theirs.updated_at} />
            ): “{theirs.reason ?? "no reason was given"}”.
          </>
        ) : (
          <b>The rule was removed meanwhile.</b>
        )}{" "}
        You began with version {versionOf(form.base)}. Nothing of yours is saved or lost.
      </p>
      <Differences
        of={differences(theirs?.in_force, form.terms)}
        names={[theirs ? `Theirs, version ${theirs.version}` : "Now", "Yours"]}
      />
      <p class="actions">
        <button type="button" class="button small" onClick={take}>
          Take theirs
        </button>
        <button type="button" class="button small" onClick={keep}>
          Keep mine, to save over version {versionOf(theirs)}
        </button>
      </p>
    </section>
  );
}
