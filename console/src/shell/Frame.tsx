/** What is around every screen: the rail, the bar, and the layers above. */
import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { failureOf, signedOut } from "../api/api";
import { Loading, Problem } from "../ui/Common";
import { Bar } from "./Bar";
import { Keys } from "./Keys";
import { openPalette, Palette, palette } from "./Palette";
import { Rail } from "./Rail";
import { FIRST, SCREENS, type Screen, type ScreenProps } from "./screens";
import { go, match, onLink, path } from "./router";
import { SignInAgain } from "./SignIn";

/** A key that a screen handles itself is pressed in a field, or with a modifier. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  return /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable;
}

function useKeys(): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        openPalette();
      } else if (event.key === "?" && !isTyping(event)) {
        Keys.isOpen.value = true;
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function find(): { screen: Screen; params: Record<string, string> } | undefined {
  for (const screen of SCREENS) {
    const params = match(screen.path, path.value);
    if (params) return { screen, params };
  }
  return undefined;
}

const loaded = new Map<Screen, ComponentType<ScreenProps>>();

function Loaded({ screen, params }: { screen: Screen; params: Record<string, string> }) {
  const round = useSignal(0);
  const failure = useSignal<unknown>(undefined);
  const Found = loaded.get(screen);
  useEffect(() => {
    document.title = `${screen.title} · Openbell`;
    if (loaded.has(screen)) return;
    failure.value = undefined;
    screen.load().then(
      (module) => {
        loaded.set(screen, module.default);
        round.value++;
      },
      (error: unknown) => {
        failure.value = error;
      },
    );
  }, [screen]);
  void round.value;
  if (failure.value) {
    // After an update of the server the files of the old pages are gone.
    return <Problem title="This page cannot be loaded" failure={failureOf(failure.value)} again={() => location.reload()} />;
  }
  return Found ? <Found params={params} key={JSON.stringify(params)} /> : <Loading what="the page" />;
}

function Content() {
  const found = find();
  const isFirst = path.value === "/" && !found;
  useEffect(() => {
    if (isFirst) go(FIRST, { replace: true });
  }, [isFirst]);
  if (isFirst) return null;
  if (found) return <Loaded screen={found.screen} params={found.params} key={found.screen.path} />;
  return (
    <div class="message">
      <h1>There is no such page</h1>
      <p>
        <code>{path.value}</code> is not an address of the console.
      </p>
    </div>
  );
}

export function Frame() {
  useKeys();
  return (
    <div class="frame" onClick={onLink as never}>
      <a class="skip" href="#main">
        To the content
      </a>
      <Bar />
      <Rail />
      <main id="main" tabIndex={-1}>
        <Content />
      </main>
      {palette.value !== undefined && <Palette />}
      {Keys.isOpen.value && <Keys />}
      {signedOut.value && <SignInAgain />}
    </div>
  );
}
