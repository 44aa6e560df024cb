/** The fields of one kind of rule. */
import type { Field, Typed } from "./schema";

interface Props {
  field: Field;
  value: string | readonly string[];
  problem: string | undefined;
  set: (value: string | readonly string[]) => void;
}

function Choices({ field, value, set }: Props) {
  const chosen = value as readonly string[];
  return (
    <fieldset class="choices">
      <legend>{field.label}</legend>
      {field.choices.map((each) => (
        <label key={each} class="check">
          <input
            type="checkbox"
            checked={chosen.includes(each)}
            onChange={({ currentTarget: { checked } }) =>
              set(field.choices.filter((of) => (of === each ? checked : chosen.includes(of))))
            }
          />
          {each}
        </label>
      ))}
      {field.hint && <span class="hint-text">{field.hint}</span>}
    </fieldset>
  );
}

function Choice({ field, value, set, id }: Props & { id: string }) {
  const isYesNo = field.kind === "BOOLEAN";
  return (
    <select
      class="field"
      id={id}
      aria-describedby={`${id}-hint`}
      value={value as string}
      onChange={(event) => set(event.currentTarget.value)}
    >
      {!field.isRequired && <option value="">Default</option>}
      {field.isRequired && !value && <option value="">Choose</option>}
      {(isYesNo ? ["true", "false"] : field.choices).map((each) => (
        <option key={each} value={each}>
          {isYesNo ? (each === "true" ? "Yes" : "No") : each}
        </option>
      ))}
    </select>
  );
}

function OneField(props: Props) {
  const { field, value, problem, set } = props;
  if (field.kind === "CHOICES") return <Choices {...props} />;
  const id = `field-${field.name}`;
  const isChoice = field.kind === "CHOICE" || field.kind === "BOOLEAN";
  const common = {
    id,
    class: "field",
    value: value as string,
    "aria-invalid": problem ? ("true" as const) : undefined,
    "aria-describedby": `${id}-hint`,
    autocomplete: "off" as const,
    spellcheck: false,
  };
  return (
    <div class={`labelled${field.kind === "LIST" ? " wide" : ""}`}>
      <label for={id}>
        {field.label}
        {!field.isRequired && <span class="dim"> (optional)</span>}
      </label>
      {isChoice ? (
        <Choice {...props} id={id} />
      ) : field.kind === "LIST" ? (
        <textarea {...common} rows={3} onInput={(event) => set(event.currentTarget.value)} />
      ) : (
        <input
          {...common}
          inputMode={field.kind === "DECIMAL" ? "decimal" : field.kind === "INTEGER" ? "numeric" : undefined}
          onInput={(event) => set(event.currentTarget.value)}
        />
      )}
      <span class={problem ? "wrong" : "hint-text"} id={`${id}-hint`}>
        {problem || field.hint}
      </span>
    </div>
  );
}

interface FieldsProps {
  fields: readonly Field[];
  typed: Typed;
  problems: Record<string, string>;
  set: (typed: Typed) => void;
}

export function Fields({ fields, typed, problems, set }: FieldsProps) {
  return (
    <>
      {fields.map((field) => (
        <OneField
          key={field.name}
          field={field}
          value={typed[field.name] ?? (field.kind === "CHOICES" ? [] : "")}
          problem={problems[field.name]}
          set={(value) => set({ ...typed, [field.name]: value })}
        />
      ))}
    </>
  );
}
