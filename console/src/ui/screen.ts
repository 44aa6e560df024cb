import { useLayoutEffect } from "preact/hooks";

/** Name the screen at the main element, and say when its first data is drawn. */
export function useScreen(name: string, isReady: boolean): void {
  useLayoutEffect(() => {
    const main = document.getElementById("main");
    if (!main) return undefined;
    main.dataset.screen = name;
    if (isReady) main.dataset.ready = "";
    else delete main.dataset.ready;
    return () => {
      delete main.dataset.screen;
      delete main.dataset.ready;
    };
  }, [name, isReady]);
}
