import { render } from "preact";
import { signedOut } from "./api/api";
import { startLive } from "./live/live";
import { Frame } from "./shell/Frame";
import { me, readSession, readWho, watchAccounts } from "./shell/session";
import { RETURN, ReturnPage, SIGNED_OUT, SignInPage, signInNow, UnreachablePage } from "./shell/SignIn";
import "./shell/theme";
import "./styles/index.css";

const root = document.getElementById("app") as HTMLElement;

async function start(): Promise<void> {
  if (location.pathname === SIGNED_OUT) return render(<SignInPage />, root);
  if (!(await readSession())) {
    if (!signInNow()) render(<SignInPage failed />, root);
    return undefined;
  }
  if (location.pathname === RETURN) return render(<ReturnPage />, root);
  // The frame is drawn at once; what it shows arrives.
  render(<Frame />, root);
  startLive();
  watchAccounts();
  await readWho().catch((error: unknown) => {
    if (!signedOut.peek() && !me.peek()) throw error;
  });
  return undefined;
}

start().catch((error: unknown) => {
  render(<UnreachablePage detail={error instanceof Error ? error.message : String(error)} />, root);
});
