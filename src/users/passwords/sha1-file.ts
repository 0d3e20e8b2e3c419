/** Reads a part of a file. */
export type ReadPart = (position: number, bytes: number) => Promise<Buffer>

/** About ninety lines. */
const BLOCK_BYTES = 4096

/** How many parts are looked at before the first lookup, and their size: all of a file of up to 4 MiB. */
const SAMPLES = 64
const SAMPLE_BYTES = 65_536

/** In either case, with a count or without. The earliest lists of Have I Been Pwned had blanks after it. */
const LINE = /^[\dA-F]{40}(?::\d*)?[ \t\r]*$/

/** Whether a line of a list is one of SHA-1. */
export function isSha1Line(line: string): boolean {
  return LINE.test(line.toUpperCase())
}

/** A line that begins at `position`, or the end of the list. */
interface Place {
  readonly position: number
  /** In upper case. */
  readonly hash: string
}

/**
 * A file whose lines begin with SHA-1 in ascending order, from the position `start` to `end`, without the end of its last line.
 * All that is read is checked: `wrong` makes the error that is thrown when lines are not in order.
 */
export function createSha1File(
  read: ReadPart,
  options: { readonly start: number; readonly end: number; readonly wrong: () => Error },
) {
  const { start, end, wrong } = options
  const first: Place = { position: start, hash: '0'.repeat(40) }
  const last: Place = { position: end, hash: 'F'.repeat(40) }

  /** The whole lines of the part at `from`, which lies between two places. */
  async function readLines(from: number, bytes: number, low: Place, high: Place) {
    const to = Math.min(from + bytes, high.position)
    const text = (await read(from, to - from)).toString('latin1').toUpperCase()
    if (text.length < to - from) throw wrong()
    const skipped = from === low.position ? 0 : text.indexOf('\n') + 1
    // The last line is dropped unless it is whole. The last line of the file has no line end here.
    const rest = to === end ? to - from : text.lastIndexOf('\n')
    const lines = text.slice(skipped, rest).split('\n')
    const hashes = lines.map(line => line.slice(0, 40))
    const isInOrder = hashes.every((hash, index) => hash >= (hashes[index - 1] ?? low.hash))
    if (!lines.every(line => LINE.test(line)) || !isInOrder || (hashes.at(-1) ?? '') > high.hash) {
      throw wrong()
    }
    return {
      hashes,
      first: { position: from + skipped, hash: hashes[0] as string },
      after: { position: to === end ? end : from + rest + 1, hash: hashes.at(-1) as string },
    }
  }

  return {
    /** Throws if the parts that it reads are not in order. */
    checkSamples: async (): Promise<void> => {
      let low = first
      for (let sample = 0; low.position < end; sample++) {
        const place = start + Math.floor((sample / SAMPLES) * (end - start))
        const from = Math.max(low.position, Math.min(place, end - SAMPLE_BYTES))
        low = (await readLines(from, SAMPLE_BYTES, low, last)).after
      }
    },

    /** Whether a line has a hash, in hexadecimal digits of upper case. Reads as often as the file can be halved: 24 times in 40 GB. */
    has: async (hash: string): Promise<boolean> => {
      let [low, high] = [first, last]
      while (low.position < high.position) {
        const center = (low.position + high.position - BLOCK_BYTES) / 2
        const from = Math.max(low.position, Math.floor(center))
        const lines = await readLines(from, BLOCK_BYTES, low, high)
        if (hash < lines.first.hash) high = lines.first
        else if (hash > lines.after.hash) low = lines.after
        else return lines.hashes.includes(hash)
      }
      return false
    },
  }
}
