export interface Missing {
  first: number;
  last: number;
  /** RETENTION, DELETED, or "" if it is not known. */
  reason: string;
}

/** Ranges of numbers that are not in the list, although numbers on both sides are. */
export function missingBetween(seqs: readonly number[], known: readonly Missing[] = []): Missing[] {
  const found: Missing[] = [];
  for (let at = 1; at < seqs.length; at++) {
    const [newer, older] = [seqs[at - 1] as number, seqs[at] as number];
    if (newer - older <= 1) continue;
    const reason = known.find(({ first, last }) => first <= newer - 1 && last >= older + 1)?.reason ?? "";
    found.push({ first: older + 1, last: newer - 1, reason });
  }
  return found;
}
