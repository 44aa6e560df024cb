/**
 * The screens. To add one: a folder in ../screens with a default export, and a row here. A row with `rail` is in the
 * rail, in this order.
 */
import type { ComponentType } from "preact";

export interface ScreenProps {
  /** The values of {names} in the path. */
  params: Record<string, string>;
}

export interface Screen {
  path: string;
  title: string;
  load: () => Promise<{ default: ComponentType<ScreenProps> }>;
  /** The path of an icon of 20 by 20. */
  rail?: string;
  /** Which row of the rail is marked while this screen is open, if it has none itself. */
  under?: string;
}

export const SCREENS: readonly Screen[] = [
  {
    path: "/",
    title: "Home",
    load: () => import("../screens/home"),
    rail: "M3 9.5 10 4l7 5.5V16a1 1 0 0 1-1 1h-3.5v-5h-5v5H4a1 1 0 0 1-1-1Z",
  },
  {
    path: "/orders",
    title: "Blotter",
    load: () => import("../screens/blotter"),
    rail: "M3 5h14M3 10h14M3 15h14",
  },
  {
    path: "/unknown",
    title: "Unknown",
    load: () => import("../screens/unknown"),
    rail: "M7 7.2C7 5.4 8.3 4 10 4s3 1.3 3 3c0 2.2-3 2.4-3 5M10 15.5v.2",
  },
  {
    path: "/halt",
    title: "Halt",
    load: () => import("../screens/halt"),
    rail: "M7 3h6l4 4v6l-4 4H7l-4-4V7ZM7.5 7.5h5v5h-5Z",
  },
  {
    path: "/accounts/{account}/halt-reports/{report}",
    title: "Halt report",
    load: () => import("../screens/halt/report"),
    under: "/halt",
  },
  {
    path: "/controls",
    title: "Controls",
    load: () => import("../screens/controls"),
    rail: "M3 6h8M15 6h2M3 14h2M9 14h8M13 4a2 2 0 1 0 0 4 2 2 0 0 0 0-4ZM7 12a2 2 0 1 0 0 4 2 2 0 0 0 0-4Z",
  },
  {
    path: "/money",
    title: "Money",
    load: () => import("../screens/money"),
    rail: "M4 16V9M8 16V4M12 16v-5M16 16V7M2 16h16",
  },
  {
    path: "/receipts",
    title: "Receipts",
    load: () => import("../screens/receipts"),
    rail: "M10 3l6 2.5v4.5c0 3.5-2.5 6-6 7.5-3.5-1.5-6-4-6-7.5V5.5ZM7.5 10l2 2 3.5-4",
  },
  {
    path: "/events",
    title: "Events",
    load: () => import("../screens/events"),
    rail: "M2 10h4l2-6 4 12 2-6h4",
  },
  {
    path: "/webhooks",
    title: "Webhooks",
    load: () => import("../screens/webhooks"),
    rail: "M4 10a6 6 0 0 1 6-6M7 10a3 3 0 0 1 3-3M10 10h6M13 7l3 3-3 3",
  },
  {
    path: "/accounts",
    title: "Accounts",
    load: () => import("../screens/accounts"),
    rail: "M3 6h14v10H3zM7 6V4h6v2M3 10h14",
  },
  {
    path: "/keys",
    title: "API keys",
    load: () => import("../screens/keys"),
    rail: "M7 9a3.5 3.5 0 1 1 0 .1M10.5 9H17v3M14 9v2.5",
  },
  {
    path: "/audit",
    title: "Audit",
    load: () => import("../screens/audit"),
    rail: "M5 3h10v14H5zM8 7h4M8 10h4M8 13h2",
  },
  {
    path: "/chaos",
    title: "Chaos",
    load: () => import("../screens/chaos"),
    rail: "M11 2 5 11h5l-1 7 6-9h-5Z",
  },
  {
    path: "/accounts/{account}/intents/{intent}",
    title: "Intent",
    load: () => import("../screens/intent"),
    under: "/orders",
  },
  {
    path: "/accounts/{account}/receipts/{receipt}",
    title: "Receipt",
    load: () => import("../screens/receipt"),
    under: "/orders",
  },
];

/** Where the console begins until there is a screen at "/". */
export const FIRST = SCREENS.some((each) => each.path === "/") ? "/" : "/orders";
