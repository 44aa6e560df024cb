import { lamp } from "../live/live";
import { Icon } from "../ui/Icon";
import { href, match, path } from "./router";
import { SCREENS, type Screen } from "./screens";
import { me, signOut, withAccount } from "./session";

/** How many rows fit at the bottom of a phone; the palette has the others. */
const PHONE_MAX = 5;

function marked(): string | undefined {
  const open = SCREENS.find((each) => match(each.path, path.value));
  return open?.rail ? open.path : open?.under;
}

function Row({ screen, at }: { screen: Screen; at: number }) {
  return (
    <li class={at >= PHONE_MAX ? "not-on-phone" : undefined}>
      <a href={href(withAccount(screen.path))} aria-current={marked() === screen.path ? "page" : undefined}>
        <Icon d={screen.rail ?? ""} />
        <span>{screen.title}</span>
      </a>
    </li>
  );
}

function Who() {
  const { principal_id = "", role = "" } = me.value ?? {};
  return (
    <div class="who">
      <span class="avatar" aria-hidden="true">
        {principal_id.charAt(0).toUpperCase()}
      </span>
      <span class="who-name">
        <b title={principal_id}>{principal_id}</b>
        <span class="dim">{role.replaceAll("_", " ")}</span>
      </span>
      <button type="button" class="button small" onClick={() => void signOut()}>
        Sign out
      </button>
    </div>
  );
}

export function Rail() {
  return (
    <nav class="rail" aria-label="Screens" data-lamp={lamp.value}>
      <ul>
        {SCREENS.filter((each) => each.rail).map((screen, at) => (
          <Row key={screen.path} screen={screen} at={at} />
        ))}
      </ul>
      <Who />
    </nav>
  );
}
