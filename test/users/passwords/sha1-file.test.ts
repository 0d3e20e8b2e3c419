import { hash } from 'node:crypto'
import { expect, test } from 'vitest'
import { createSha1File } from '../../../src/users/passwords/sha1-file.ts'

const LINES = 20_000

const sha1Of = (nth: number) => hash('sha1', `password ${nth}`).toUpperCase()

const even = Array.from({ length: LINES }, (_, nth) => sha1Of(nth)).sort()

/** Almost all at the end. */
const uneven = ['0'.repeat(40), ...even.map(hash => `FFFFFF${hash.slice(6)}`).sort()]

const neighbour = (hash: string, step: bigint) =>
  (BigInt(`0x${hash}`) + step).toString(16).toUpperCase().padStart(40, '0')

test.each([
  ['lines of one length', even, () => ''],
  ['counts of other lengths', even, (index: number) => `:${10 ** (index % 9)}`],
  ['lines that are longer and longer', even, (at: number) => `:1${' '.repeat(at / 20)}`],
  ['hashes that are not spread evenly', uneven, () => ''],
])('a file with %s is searched with few reads', async (_what, hashes, rest) => {
  const file = Buffer.from(hashes.map((hash, index) => `${hash}${rest(index)}`).join('\n'))
  let reads = 0
  const list = createSha1File(
    async (position, bytes) => {
      reads++
      expect(position + bytes).toBeLessThanOrEqual(file.length)
      return file.subarray(position, position + bytes)
    },
    { start: 0, end: file.length, wrong: () => new Error('wrong') },
  )
  await list.checkSamples()
  const has = async (hash: string) => {
    reads = 0
    const isFound = await list.has(hash)
    expect(reads).toBeLessThanOrEqual(Math.ceil(Math.log2(file.length / 4096)) + 1)
    return isFound
  }
  const [first = '', last = ''] = [hashes[0], hashes.at(-1)]
  const some = [first, last, ...hashes.filter((_, index) => index % 97 === 0)]
  for (const hash of some) expect([hash, await has(hash)]).toEqual([hash, true])
  for (const hash of some.filter(one => one !== first)) {
    expect([hash, await has(neighbour(hash, -1n))]).toEqual([hash, false])
  }
  expect(await has(neighbour(last, 1n))).toBe(false)
  expect(await has('F'.repeat(40))).toBe(false)
})
