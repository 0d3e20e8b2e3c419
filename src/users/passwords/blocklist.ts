import { hash } from 'node:crypto'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { decodeFile, OperatorError, readFailureInWords } from '../../errors.ts'
import { createSha1File, isSha1Line } from './sha1-file.ts'

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
  if (isSha1Line(line)) {
    const tailAt = Math.max(start, size - EDGE_BYTES)
    const end = tailAt + (await read(tailAt, EDGE_BYTES)).toString('latin1').trimEnd().length
    const list = createSha1File(read, { start, end, wrong: () => unusable(NO_ORDER) })
    await list.checkSamples()
    return (form: string) => list.has(hash('sha1', form).toUpperCase())
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
