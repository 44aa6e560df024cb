import { signal } from "@preact/signals";

const phone = matchMedia("(max-width: 760px)");
/** True where the pages have the layout of a phone; the same width as in the styles. */
export const isPhone = signal(phone.matches);
phone.addEventListener("change", () => {
  isPhone.value = phone.matches;
});
