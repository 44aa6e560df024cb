import { ApiError, OpenbellError } from "@openbell/client";

/** What a page shows of any failure. */
export interface Failure {
  detail: string;
  remedy: string;
  code?: string;
  requestId?: string;
  status?: number;
}

export function failureOf(error: unknown): Failure {
  if (error instanceof ApiError) {
    const { detail, remedy, code, requestId, status } = error;
    return { detail, remedy, code, requestId, status };
  }
  if (error instanceof OpenbellError) return { detail: error.detail, remedy: error.remedy };
  return { detail: `The page failed: ${String(error)}`, remedy: "Reload the page." };
}
