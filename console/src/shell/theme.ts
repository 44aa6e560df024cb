/** Light, dark, or as the system is set. */
import { effect, signal } from "@preact/signals";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const NAME = "openbell-theme";
const stored = localStorage.getItem(NAME);
export const theme = signal<Theme>(THEMES.find((each) => each === stored) ?? "system");

effect(() => {
  const { dataset } = document.documentElement;
  if (theme.value === "system") {
    delete dataset.theme;
    localStorage.removeItem(NAME);
  } else {
    dataset.theme = theme.value;
    localStorage.setItem(NAME, theme.value);
  }
});
