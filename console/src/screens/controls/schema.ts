/** Forms of rules, made from the JSON schemas of GET /v1/controls/kinds. Decimals stay the text that was typed. */
import { capital, plain } from "../../text/words";

export type Parameters = Record<string, unknown>;

interface Property {
  type?: string;
  enum?: string[];
  items?: { enum?: string[] };
  pattern?: string;
  description?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  format?: string;
  maxItems?: number;
}

export interface Field {
  name: string;
  label: string;
  kind: "TEXT" | "DECIMAL" | "INTEGER" | "CHOICE" | "CHOICES" | "LIST" | "BOOLEAN";
  isRequired: boolean;
  choices: readonly string[];
  hint: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
}

/** What was typed: a text for each field, a list of texts for CHOICES. */
export type Typed = Record<string, string | readonly string[]>;

function kindOf({ type, enum: choices, items, description }: Property): Field["kind"] {
  if (choices) return "CHOICE";
  if (type === "array") return items?.enum ? "CHOICES" : "LIST";
  if (type === "boolean") return "BOOLEAN";
  if (type === "integer") return "INTEGER";
  return description?.startsWith("a decimal") ? "DECIMAL" : "TEXT";
}

const number = (value: number): string => value.toLocaleString("en-US");

function hintOf(name: string, property: Property): string {
  const { minimum, maximum, default: standard, description, format, maxItems } = property;
  const parts = [
    description,
    minimum !== undefined && maximum !== undefined && `${number(minimum)} to ${number(maximum)}`,
    format === "timezone" && "such as America/New_York",
    name.startsWith("trading_") && "HH:MM:SS",
    name === "currency" && "such as USD",
    property.type === "array" && !property.items?.enum && `separate with commas${maxItems ? `, up to ${number(maxItems)}` : ""}`,
    standard !== undefined && `default ${text(standard)}`,
  ];
  return parts.filter(Boolean).join("; ");
}

/** The fields of a kind's parameters, in the order of its schema. */
export function fieldsOf(schema: Parameters): Field[] {
  const properties = (schema.properties ?? {}) as Record<string, Property>;
  const required = (schema.required ?? []) as string[];
  return Object.entries(properties).map(([name, property]) => ({
    name,
    label: capital(plain(name)).replace(/\bmillis\b/, "(milliseconds)").replace(/^Ref max age/, "Oldest reference price"),
    kind: kindOf(property),
    isRequired: required.includes(name),
    choices: property.enum ?? property.items?.enum ?? [],
    hint: hintOf(name, property),
    pattern: property.pattern,
    minimum: property.minimum,
    maximum: property.maximum,
  }));
}

export function typedOf(fields: readonly Field[], parameters: Parameters = {}): Typed {
  return Object.fromEntries(
    fields.map(({ name, kind }) => {
      const value = parameters[name];
      if (kind === "CHOICES") return [name, Array.isArray(value) ? (value as string[]) : []];
      if (value === undefined || value === null) return [name, ""];
      return [name, Array.isArray(value) ? value.join(", ") : String(value)];
    }),
  );
}

function problemOf(field: Field, value: string): string {
  const { kind, pattern, minimum, maximum } = field;
  if (kind === "DECIMAL" && pattern && !new RegExp(pattern).test(value)) return "Enter a plain decimal, such as 300 or 0.5.";
  if (kind === "INTEGER") {
    if (!/^[0-9]{1,15}$/.test(value)) return "Enter a whole number.";
    const is = Number(value);
    if ((minimum !== undefined && is < minimum) || (maximum !== undefined && is > maximum)) {
      return `Enter ${number(minimum ?? 0)} to ${number(maximum ?? 0)}.`;
    }
  }
  if (kind === "TEXT" && pattern && !new RegExp(pattern).test(value)) return `This does not fit. ${capital(field.hint)}.`;
  return "";
}

function valueOf(kind: Field["kind"], value: string): unknown {
  if (kind === "INTEGER") return Number(value);
  if (kind === "BOOLEAN") return value === "true";
  if (kind === "LIST") return value.split(/[\s,;]+/).filter(Boolean);
  return value;
}

/** The parameters as the API takes them; a field that is empty is left out. */
export function parametersOf(fields: readonly Field[], typed: Typed) {
  const parameters: Parameters = {};
  const problems: Record<string, string> = {};
  for (const field of fields) {
    const given = typed[field.name] ?? "";
    if (typeof given !== "string") {
      if (given.length) parameters[field.name] = given;
      else if (field.isRequired) problems[field.name] = "Choose at least one.";
      continue;
    }
    const value = given.trim();
    if (!value) {
      if (field.kind === "LIST" && field.isRequired) parameters[field.name] = [];
      else if (field.isRequired) problems[field.name] = "This is needed.";
      continue;
    }
    const problem = problemOf(field, value);
    if (problem) problems[field.name] = problem;
    else parameters[field.name] = valueOf(field.kind, value);
  }
  return { parameters, problems };
}

const SHOWN_MAX = 6;

/** A parameter's value in words: a long list is cut. */
export function text(value: unknown): string {
  if (Array.isArray(value)) {
    if (!value.length) return "none";
    const left = value.length - SHOWN_MAX;
    return value.slice(0, SHOWN_MAX).join(", ") + (left > 0 ? ` and ${number(left)} more` : "");
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object" && value !== null) return JSON.stringify(value);
  return String(value ?? "–");
}
