declare module "node:test" {
  export default function test(name: string, run: () => unknown): void;
}
declare module "node:assert/strict" {
  const assert: any;
  export default assert;
}
