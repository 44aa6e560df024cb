import { useSignal } from "@preact/signals";
import { Copy } from "./Copy";

/** The same command in several languages, one shown at a time. */
export function Code({ title, texts }: { title: string; texts: Record<string, string> }) {
  const names = Object.keys(texts);
  const chosen = useSignal(names[0] ?? "");
  const name = chosen.value in texts ? chosen.value : (names[0] ?? "");
  const text = texts[name] ?? "";
  return (
    <section class="card">
      <header>
        <h2>{title}</h2>
        <span class="grow" />
        <div class="choice" role="group" aria-label="Language">
          {names.map((each) => (
            <button
              type="button"
              key={each}
              class="button small"
              aria-pressed={each === name}
              onClick={() => {
                chosen.value = each;
              }}
            >
              {each}
            </button>
          ))}
        </div>
      </header>
      <pre class="code" tabIndex={0} role="region" aria-label={`${title}: ${name}`}>
        {text}
      </pre>
      <footer>
        <span class="grow" />
        <Copy text={text} label={`Copy the ${name} command`} />
      </footer>
    </section>
  );
}
