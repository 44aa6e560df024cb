import type { Difference } from "./terms";

/** Old and new side by side, only what differs. */
export function Differences({ of, names = ["Now", "New"] }: { of: readonly Difference[]; names?: readonly string[] }) {
  if (!of.length) return <p class="dim">Nothing differs.</p>;
  return (
    <table class="differences">
      <thead>
        <tr>
          <th>
            <span class="hidden-text">What</span>
          </th>
          <th>{names[0]}</th>
          <th>{names[1]}</th>
        </tr>
      </thead>
      <tbody>
        {of.map(({ name, before, after }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{before ? <del>{before}</del> : <span class="dim">not set</span>}</td>
            <td>{after ? <ins>{after}</ins> : <span class="dim">not set</span>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
