/** The state of the form of one rule: what was typed, on which version, and what was back-tested. */
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Place } from "../../ui/places";
import { type Field, fieldsOf, parametersOf, type Typed, typedOf } from "./schema";
import type { ControlKind, Rule } from "./source";
import { type Terms, termsKey, untilField, untilTime } from "./terms";

export interface Form {
  typed: Typed;
  mode: Terms["mode"];
  on_missing: "" | "DENY" | "ALLOW";
  /** As the field has it, in UTC; empty: for good. */
  until: string;
  reason: string;
}

export const versionOf = (rule: Rule | undefined): number => rule?.version ?? 0;

function formOf(fields: readonly Field[], terms: Terms | undefined): Form {
  return {
    typed: typedOf(fields, terms?.parameters),
    mode: terms?.mode ?? "HARD",
    on_missing: terms?.on_missing ?? "",
    until: untilField(terms?.expires_at),
    reason: "",
  };
}

export interface RuleForm {
  fields: readonly Field[];
  form: Form;
  set: (changes: Partial<Form>) => void;
  terms: Terms;
  problems: Record<string, string>;
  isValid: boolean;
  /** Names the terms that a back-test judges: all but their end. */
  key: string;
  base: Rule | undefined;
  /** True if another version was saved than the one on which the form is based. */
  isBehind: boolean;
  isChanged: boolean;
  rebase: (rule: Rule | undefined) => void;
  load: (terms: Terms | undefined) => void;
}

function same(fields: readonly Field[], form: Form, terms: Terms | undefined): boolean {
  const { reason: _, ...typed } = form;
  const { reason: __, ...stored } = formOf(fields, terms);
  return JSON.stringify(typed) === JSON.stringify(stored);
}

export function useRuleForm(place: Place, kind: ControlKind, rule: Rule | undefined): RuleForm {
  const fields = useMemo(() => fieldsOf(kind.parameters), [kind]);
  const form: Signal<Form> = useSignal(formOf(fields, rule?.in_force));
  const base = useSignal<Rule | undefined>(rule);
  const isChanged = !same(fields, form.value, base.value?.in_force);
  const isBehind = versionOf(rule) !== versionOf(base.value);
  useEffect(() => {
    // A form in which nothing was typed follows what others save.
    if (!isBehind || isChanged) return;
    base.value = rule;
    form.value = { ...formOf(fields, rule?.in_force), reason: form.value.reason };
  }, [isBehind, isChanged, rule]);
  const { typed, mode, on_missing, until } = form.value;
  const { parameters, problems } = parametersOf(fields, typed);
  const expires_at = untilTime(until);
  const terms: Terms = {
    mode,
    parameters,
    ...(on_missing && { on_missing }),
    ...(expires_at && { expires_at }),
  };
  return {
    fields,
    form: form.value,
    set: (changes) => {
      form.value = { ...form.value, ...changes };
    },
    terms,
    problems,
    isValid: Object.keys(problems).length === 0,
    key: `${JSON.stringify(place)} ${kind.code} ${termsKey({ ...terms, expires_at: undefined })}`,
    base: base.value,
    isBehind,
    isChanged,
    rebase: (to) => {
      base.value = to;
    },
    load: (from) => {
      form.value = { ...formOf(fields, from), reason: form.value.reason };
    },
  };
}
