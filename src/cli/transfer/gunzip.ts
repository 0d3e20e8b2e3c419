import { PassThrough, Readable } from 'node:stream'
import { crc32, createInflateRaw } from 'node:zlib'

/** How gzip begins: RFC 1952. */
export const GZIP_MAGIC = Buffer.of(0x1f, 0x8b)

const OUTPUT_BYTES = 1024 * 1024

/** Bits of the fourth byte of a header, each for a part of the header. */
const FLAG = { headerCrc: 2, extra: 4, name: 8, comment: 16 }

/**
 * Unpacked chunks of all members. Other bytes after the last member are ignored, as `gzip` does; `onGarbage` is called
 * unless they are padding. `createGunzip` of Node fails for such bytes, and drops what it has unpacked.
 *
 * Throws an `Error` of zlib if the data are damaged or end early, after it has yielded those before that place.
 */
export async function* gunzip(
  packed: AsyncIterable<Buffer>,
  onGarbage: () => void,
): AsyncGenerator<Buffer> {
  const input = createInput(packed)
  try {
    do yield* unpackMember(input)
    while ((await input.peek(2)).equals(GZIP_MAGIC))
    while ((await input.peek(1))[0] === 0) await input.take(1)
    if ((await input.peek(1)).length > 0) onGarbage()
  } finally {
    await input.close()
  }
}

type Input = ReturnType<typeof createInput>

async function* unpackMember(input: Input): AsyncGenerator<Buffer> {
  await skipHeader(input)
  let crc = 0
  let length = 0
  for await (const bytes of input.inflate()) {
    crc = crc32(bytes, crc)
    length += bytes.length
    yield bytes
  }
  const trailer = await input.take(8)
  if (trailer.readUInt32LE(0) !== crc) throw zlibError('incorrect data check')
  if (trailer.readUInt32LE(4) !== length % 2 ** 32) throw zlibError('incorrect length check')
}

async function skipHeader(input: Input): Promise<void> {
  const [, , method, flags = 0] = await input.take(10)
  if (method !== 8) throw zlibError('unknown compression method')
  if (flags & FLAG.extra) await input.take((await input.take(2)).readUInt16LE())
  for (const text of [FLAG.name, FLAG.comment])
    if (flags & text) while ((await input.take(1))[0] !== 0);
  if (flags & FLAG.headerCrc) await input.take(2)
}

/** As zlib of Node throws it. */
function zlibError(message: string): Error {
  return Object.assign(new Error(message), { code: 'Z_DATA_ERROR' })
}

function createInput(packed: AsyncIterable<Buffer>) {
  const chunks = packed[Symbol.asyncIterator]()
  /** What was read and not taken. */
  let held: Buffer = Buffer.alloc(0)

  /** The next bytes, fewer at the end of the input. */
  async function peek(count: number): Promise<Buffer> {
    while (held.length < count) {
      const { value, done } = await chunks.next()
      if (done) break
      held = Buffer.concat([held, value])
    }
    return held.subarray(0, count)
  }

  async function take(count: number): Promise<Buffer> {
    const bytes = await peek(count)
    if (bytes.length < count) throw zlibError('unexpected end of file')
    held = held.subarray(count)
    return bytes
  }

  /** Unpacks a deflated stream, and takes it. */
  async function* inflate(): AsyncGenerator<Buffer> {
    let given: Buffer[] = []
    let givenBytes = 0
    const deflated = createInflateRaw({ chunkSize: OUTPUT_BYTES })
    async function* feed(): AsyncGenerator<Buffer> {
      for (let chunk: Buffer | undefined = held; chunk !== undefined; ) {
        const unused = givenBytes - deflated.bytesWritten
        given = [lastOf(given, unused), chunk]
        givenBytes += chunk.length
        yield chunk
        chunk = (await chunks.next()).value
      }
    }
    const feeding = feed()
    const source = Readable.from(feeding, { objectMode: false })
    // A stream that fails drops what it holds. This one takes the good chunks before.
    const output = new PassThrough()
    let failure: unknown
    const fail = (error: unknown) => {
      failure = error
      output.end()
    }
    source.on('error', fail)
    deflated.on('error', fail)
    source.pipe(deflated).pipe(output)
    try {
      yield* output
    } finally {
      source.destroy()
      deflated.destroy()
      // Waits for a chunk that is being read.
      await feeding.return(undefined)
    }
    if (failure !== undefined) throw failure
    held = lastOf(given, givenBytes - deflated.bytesWritten)
  }

  return { peek, take, inflate, close: () => chunks.return?.() }
}

function lastOf(chunks: readonly Buffer[], count: number): Buffer {
  const whole = Buffer.concat(chunks)
  return whole.subarray(whole.length - count)
}
