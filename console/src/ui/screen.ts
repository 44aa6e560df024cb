/** Marks the frame's main element with the screen that it shows, and whether its first data is drawn. */
import { useEffect } from "preact/hooks";

export function useScreen(name: string, isReady: boolean): void {
  useEffect(() => {
    const main = document.getElementById("main");
    if (!main) return undefined;
    main.dataset.screen = name;
    if (isReady) main.dataset.ready = "";
    return () => {
      delete main.dataset.screen;
      delete main.dataset.ready;
    };
  }, [name, isReady]);
}
