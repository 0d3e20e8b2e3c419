import { hash } from 'node:crypto'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { decodeFile, OperatorError, readFailureInWords } from '../../errors.ts'

/** Passwords that nobody may choose. */
export type PasswordBlocklist = Awaited<ReturnType<typeof openPasswordBlocklist>>

/** The largest file with a password on each line, of which eight bytes a line are kept in memory. */
const MAX_PLAIN_BYTES = 16 * 1024 * 1024

/** More than the first line of SHA-1, or the blank lines at the end. */
const EDGE_BYTES = 1024

const NO_ORDER = 'its lines are not all SHA-1 in ascending order'

const BOM = '\ufeff'

/**
 * Opens a file of passwords. If its first line is a SHA-1, all lines are, in ascending order, and it stays on the disk.
 * Otherwise each line is a password, in UTF-8 and either case. Rejects with an `OperatorError` of `describe`, which gets what
 * is wrong, if the file cannot be used.
 */
export async function openPasswordBlocklist(path: string, describe: (reason: string) => string) {
  const unusable = (reason: string, cause?: unknown) =>
    new OperatorError([describe(reason)], { cause })
  const reading = <T>(work: Promise<T>): Promise<T> =>
    work.catch(cause => {
      const why = readFailureInWords(cause)
      throw why === undefined ? cause : unusable(why, cause)
    })

  // Not opened before: that of a pipe would wait for its writer.
  const found = await reading(stat(path))
  if (found.isDirectory()) throw unusable('it is a folder')
  if (!found.isFile()) throw unusable('it is not a regular file')
  const file = await reading(open(path))
  const list = await reading(readList(file, unusable)).catch(async error => {
    await file.close()
    throw error
  })
  return {
    /** Whether a password, in NFKC, is on the list. Rejects with `OperatorError` if its file cannot be read or used any more. */
    has: (form: string): Promise<boolean> => reading(list(form)),
    close: () => file.close(),
  }
}

type Unusable = (reason: string) => OperatorError

async function readList(file: FileHandle, unusable: Unusable) {
  const { size } = await file.stat()
  const read = async (position: number, length: number) => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
    return buffer.subarray(0, bytesRead)
  }
  const head = (await read(0, EDGE_BYTES)).toString()
  const start = head.startsWith(BOM) ? Buffer.byteLength(BOM) : 0
  const [line = ''] = head.replace(BOM, '').split('\n')
  if (SHA1_LINE.test(line)) {
    const tailAt = Math.max(start, size - EDGE_BYTES)
    const end = tailAt + (await read(tailAt, EDGE_BYTES)).toString('latin1').trimEnd().length
    const has = await openSha1File(read, { start, end, wrong: () => unusable(NO_ORDER) })
    return (form: string) => has(hash('sha1', form).toUpperCase())
  }
  if (size > MAX_PLAIN_BYTES) {
    throw unusable('its first line is no SHA-1, and as one password a line it is over 16 MiB')
  }
  const text = decodeFile(await read(0, size), why => unusable(`it ${why}`))
  const has = createKeyTable(fold(text.normalize('NFKC')).split(/\r?\n/))
  return async (form: string) => has(fold(form))
}

/** Folds the case of text in NFKC, in both directions: each alone leaves letters that differ only in case. */
function fold(form: string): string {
  return form.toLowerCase().toUpperCase()
}

/** Keeps the beginnings of the SHA-1 of some texts in order. Eight bytes are enough: that another text has the same is not to be expected. */
function createKeyTable(texts: readonly string[]) {
  const keys = BigUint64Array.from(texts, keyOf).sort()

  return (text: string): boolean => {
    const key = keyOf(text)
    let [low, high] = [0, keys.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((keys[middle] as bigint) < key) low = middle + 1
      else high = middle
    }
    return keys[low] === key
  }
}

function keyOf(text: string): bigint {
  return hash('sha1', text, 'buffer').readBigUInt64BE()
}

/** About ninety lines. */
const BLOCK_BYTES = 4096

/** How many parts are looked at before the first lookup, and their size: all of a file of up to 4 MiB. */
const SAMPLES = 64
const SAMPLE_BYTES = 65_536

/** In either case, with a count or without. The earliest lists of Have I Been Pwned had blanks after it. */
const SHA1_LINE = /^[\dA-F]{40}(?::\d*)?[ \t\r]*$/i

/** A line that begins at `position`, or the end of the list. */
interface Place {
  readonly position: number
  /** In upper case. */
  readonly hash: string
}

/**
 * A file whose lines begin with SHA-1 in ascending order, from the position `start` to `end`, without the end of its last line.
 * Resolves to a function that tells whether a line has a hash, in hexadecimal digits of upper case. All that is read is checked,
 * samples of the file at once: `wrong` makes the error that is thrown when lines are not in order.
 */
export async function openSha1File(
  read: (position: number, bytes: number) => Promise<Buffer>,
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
    if (
      !lines.every(line => SHA1_LINE.test(line)) ||
      !isInOrder ||
      (hashes.at(-1) ?? '') > high.hash
    ) {
      throw wrong()
    }
    return {
      hashes,
      first: { position: from + skipped, hash: hashes[0] as string },
      after: { position: to === end ? end : from + rest + 1, hash: hashes.at(-1) as string },
    }
  }

  let sampled = first
  for (let sample = 0; sampled.position < end; sample++) {
    const place = start + Math.floor((sample / SAMPLES) * (end - start))
    const from = Math.max(sampled.position, Math.min(place, end - SAMPLE_BYTES))
    sampled = (await readLines(from, SAMPLE_BYTES, sampled, last)).after
  }

  // Reads as often as the file can be halved: 24 times in 40 GB.
  return async (hash: string): Promise<boolean> => {
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
  }
}
