import type { ScreenProps } from "../../shell/screens";

export default function Screen({ params }: ScreenProps) {
  return <pre>{JSON.stringify(params)}</pre>;
}
