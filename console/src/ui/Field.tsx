import type { Signal } from "@preact/signals";
import { useId } from "preact/hooks";

interface Props {
  label: string;
  value: Signal<string>;
  type?: "text" | "password" | "number" | "url" | "date" | "datetime-local";
  hint?: string;
  placeholder?: string;
  max?: number;
}

/** A text field with its label and a hint. What was typed stays until the form is closed. */
export function Field({ label, value, type = "text", hint, placeholder, max }: Props) {
  const id = useId();
  return (
    <p class="form-field">
      <label for={id}>{label}</label>
      <input
        id={id}
        class="field"
        // Preact has one type for each kind of input.
        type={type as "text"}
        value={value.value}
        maxLength={max}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        aria-describedby={hint ? `${id}-hint` : undefined}
        onInput={(event) => {
          value.value = event.currentTarget.value;
        }}
      />
      {hint && (
        <span class="dim" id={`${id}-hint`}>
          {hint}
        </span>
      )}
    </p>
  );
}
