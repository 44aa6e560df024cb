/** Signing in: at first, again while a page is open, and the page to which the provider returns. */
import { useEffect } from "preact/hooks";
import bell from "../bell.svg";
import { Dialog } from "../ui/Dialog";
import { announceSignIn } from "./session";

/** Where the provider returns to when a page stays open in another tab. */
export const RETURN = "/console/signed-in";
export const SIGNED_OUT = "/console/signed-out";

const login = (then: string): string => `/console/login?then=${encodeURIComponent(then)}`;

// A sign-in that leads straight back to a page without a session would go round and round.
const TRIED = "openbell-sign-in";
const TRIED_MILLIS = 15_000;

/** Leave for the provider; false if that was just tried without success. */
export function signInNow(): boolean {
  const before = Number(sessionStorage.getItem(TRIED) ?? 0);
  if (Date.now() - before < TRIED_MILLIS) return false;
  sessionStorage.setItem(TRIED, String(Date.now()));
  location.assign(login(location.pathname + location.search));
  return true;
}

function Page({ title, text, then }: { title: string; text: string; then?: string }) {
  return (
    <main class="alone" id="main">
      <img src={bell} alt="" width="44" height="44" />
      <h1>{title}</h1>
      <p class="dim">{text}</p>
      {then && (
        <a class="button main" href={login(then)}>
          Sign in
        </a>
      )}
    </main>
  );
}

export function SignInPage({ failed = false }: { failed?: boolean }) {
  const isSignedOut = location.pathname === SIGNED_OUT;
  const text = failed
    ? "The sign-in did not lead to a session. Check that this browser accepts cookies of this address, then try again."
    : "Sign in at the provider of your organization.";
  const title = isSignedOut ? "You are signed out" : "Sign in to Openbell";
  return <Page title={title} text={text} then={isSignedOut ? "/console/" : location.pathname + location.search} />;
}

export function UnreachablePage({ detail }: { detail: string }) {
  return (
    <main class="alone" id="main">
      <img src={bell} alt="" width="44" height="44" />
      <h1>The console's server does not answer</h1>
      <p class="dim">{detail} Check that openbell-server console runs, then try again.</p>
      <button type="button" class="button main" onClick={() => location.reload()}>
        Try again
      </button>
    </main>
  );
}

/** In the tab that signed in: the other tabs go on, and this one closes. */
export function ReturnPage() {
  useEffect(() => {
    announceSignIn();
    const closing = setTimeout(() => window.close(), 300);
    return () => clearTimeout(closing);
  }, []);
  return <Page title="You are signed in" text="The page that you left goes on. You can close this tab." />;
}

/** Over the page: what is shown and what was typed stays. */
export function SignInAgain() {
  return (
    <Dialog title="Sign in again" onClose={() => undefined}>
      <p>Your session has ended. The page stays as it is, and goes on when you are signed in.</p>
      <div class="dialog-footer">
        <a class="button main" href={login(RETURN)} target="_blank" rel="opener">
          Sign in
        </a>
      </div>
    </Dialog>
  );
}
