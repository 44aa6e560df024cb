/** Builds frames from the bytes of a stream, as the specification of server-sent events defines them. */
import { UnexpectedReply } from "./errors.js";

export interface Frame {
  type: string;
  /** The resume token after this frame; empty if it has none. */
  id: string;
  data: Record<string, unknown>;
}

export class FrameParser {
  readonly #decoder = new TextDecoder();
  #rest = "";
  #type = "";
  #id = "";
  #data: string[] = [];

  /** The frames that end in these bytes; what is left over begins the next. */
  push(bytes: Uint8Array): Frame[] {
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
    // A \r at the end may be half of a \r\n.
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    return lines.map((line) => this.#take(line)).filter((frame) => frame !== undefined);
  }

  #take(line: string): Frame | undefined {
    if (line === "") return this.#end();
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "id") this.#id = value;
    else if (name === "event") this.#type = value;
    return undefined;
  }

  #end(): Frame | undefined {
    const [type, id, data] = [this.#type, this.#id, this.#data.join("\n")];
    this.#type = this.#id = "";
    this.#data = [];
    if (!data) return undefined;
    try {
      return { type, id, data: JSON.parse(data) };
    } catch (error) {
      throw new UnexpectedReply(`A frame of the event stream cannot be read: ${data.slice(0, 80)}`, error);
    }
  }
}
