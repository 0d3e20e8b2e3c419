import { describe, expect, test } from 'vitest'
import type { Ban, BanQuery, BanSelection, BanStore } from '../../src/limits/ban-store.ts'
import { createFakeClock } from '../support/fake-clock.ts'

export interface BanStoreHarness {
  readonly name: string
  /** An empty store, and the same store as another process opens it. Both use the clock `now`. */
  open(now: () => number): Promise<{ readonly store: BanStore; readonly other: BanStore }>
}

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const MANY = 2500

const ANN = '198.51.100.1'

/** The tests that every `BanStore` must pass. */
export function describeBanStore({ name, open }: BanStoreHarness): void {
  async function opened() {
    const clock = createFakeClock()
    return { clock, ...(await open(clock.now)) }
  }

  describe(`BanStore: ${name}`, () => {
    test('load returns the saved bans, ordered by their end, in every process', async () => {
      const { store, other, clock } = await opened()
      const first = { rule: 'login', clientKey: ANN, endsAt: clock.now() + MINUTE, lastsMs: 7 }
      const second = { rule: 'other', clientKey: ANN, endsAt: clock.now() + HOUR, lastsMs: HOUR }
      const third = {
        rule: 'login',
        clientKey: '["a\\n","é"]',
        endsAt: clock.now() + 2 * HOUR,
        lastsMs: 1,
      }
      for (const ban of [third, first, second]) await store.save(ban)
      expect(await all(store)).toEqual([first, second, third])
      expect(await all(other)).toEqual([first, second, third])
    })

    test('save rounds fractions of a millisecond up', async () => {
      const { store, clock } = await opened()
      const ban = { rule: 'login', clientKey: ANN, endsAt: clock.now() + 0.5, lastsMs: 1.25 }
      await store.save(ban)
      expect(await all(store)).toEqual([{ ...ban, endsAt: clock.now() + 1, lastsMs: 2 }])
    })

    test('load yields many bans in pages, each ban once', async () => {
      const { store, clock } = await opened()
      const bans = Array.from({ length: MANY }, (_, index) => ({
        rule: `rule ${index % 3}`,
        clientKey: `client ${index}`,
        // Many bans with the same end, so that a page can end between two of them.
        endsAt: clock.now() + MINUTE + Math.floor(index / 700),
        lastsMs: MINUTE,
      }))
      await Promise.all(bans.map(ban => store.save(ban)))
      let parts = 0
      for await (const _part of store.load()) parts++
      expect(parts).toBeGreaterThan(1)
      const found = await all(store)
      expect(found).toHaveLength(MANY)
      expect(new Set(found.map(({ clientKey }) => clientKey)).size).toBe(MANY)
      expect(found.every((ban, at) => at === 0 || ban.endsAt >= endOf(found[at - 1]))).toBe(true)
    })

    test('save keeps only the last ban of a rule and client', async () => {
      const { store, clock } = await opened()
      const ban = { rule: 'login', clientKey: ANN, endsAt: clock.now() + HOUR, lastsMs: HOUR }
      await store.save(ban)
      const last = { ...ban, endsAt: clock.now() + MINUTE, lastsMs: MINUTE }
      await store.save(last)
      expect(await all(store)).toEqual([last])
    })

    test.each([
      '',
      '__proto__',
      'a\nb',
      'a\0b',
      '%',
      "'; DROP TABLE bans; --",
      'ä',
      'x'.repeat(20_000),
    ])('the key %j is saved and lifted unchanged', async clientKey => {
      const { store, clock } = await opened()
      const ban = { rule: clientKey, clientKey, endsAt: clock.now() + HOUR, lastsMs: HOUR }
      const neighbour = { ...ban, clientKey: `${clientKey}x` }
      await store.save(ban)
      await store.save(neighbour)
      expect(await all(store)).toContainEqual(ban)
      expect(await store.lift({ rule: clientKey, clientKeys: [clientKey] })).toEqual([ban])
      expect(await all(store)).toEqual([neighbour])
    })

    test('a ban that has ended is neither loaded nor lifted', async () => {
      const { store, clock } = await opened()
      const ban = { rule: 'login', clientKey: ANN, endsAt: clock.now() + MINUTE, lastsMs: MINUTE }
      await store.save(ban)
      clock.advance(MINUTE - 1)
      expect(await all(store)).toEqual([ban])
      clock.advance(1)
      expect(await all(store)).toEqual([])
      expect(await store.lift({})).toEqual([])
    })

    test('lift removes the bans of a rule, of some keys, of both, or all', async () => {
      const { store, other, clock } = await opened()
      const at = (rule: string, clientKey: string, minutes: number): Ban => ({
        rule,
        clientKey,
        endsAt: clock.now() + minutes * MINUTE,
        lastsMs: HOUR,
      })
      const bans = [at('a', 'x', 1), at('a', 'y', 2), at('b', 'x', 3), at('b', 'y', 4)]
      const fill = () => Promise.all(bans.map(ban => store.save(ban)))
      const keysLifted = async (...lifted: Parameters<BanStore['lift']>) => {
        await fill()
        return (await store.lift(...lifted)).map(({ rule, clientKey }) => rule + clientKey)
      }
      expect(await keysLifted({ rule: 'a' })).toEqual(['ax', 'ay'])
      expect((await all(other)).map(({ rule }) => rule)).toEqual(['b', 'b'])
      expect(await keysLifted({ clientKeys: ['y', 'z'] })).toEqual(['ay', 'by'])
      expect(await keysLifted({ clientKeys: ['y', 'x'] })).toEqual(['ax', 'ay', 'bx', 'by'])
      expect(await keysLifted({ rule: 'b', clientKeys: ['x'] })).toEqual(['bx'])
      expect(await keysLifted({ rule: 'c' })).toEqual([])
      expect(await keysLifted({ clientKeys: [] })).toEqual([])
      expect(await keysLifted({})).toEqual(['ax', 'ay', 'bx', 'by'])
      expect(await all(other)).toEqual([])
    })

    describe('list', () => {
      const namesOf = (bans: readonly Ban[]) =>
        bans.map(({ rule, clientKey }) => `${rule} ${clientKey}`)

      /** The names of all bans that match, and of each page. */
      async function walk(store: BanStore, query: BanQuery) {
        const pages: string[][] = []
        let { after } = query
        for (;;) {
          const { bans, hasMore } = await store.list({ ...query, ...(after && { after }) })
          pages.push(namesOf(bans))
          if (pages.length > MANY) throw new Error('the list has no end')
          after = bans.at(-1)
          if (!hasMore || after === undefined) return { all: pages.flat(), pages }
        }
      }

      async function filled(names: readonly (readonly [rule: string, clientKey: string])[]) {
        const all = await opened()
        const endsAt = all.clock.now() + HOUR
        const bans = names.map(([rule, clientKey]) => ({ rule, clientKey, endsAt, lastsMs: HOUR }))
        await Promise.all(bans.map(ban => all.store.save(ban)))
        return { ...all, bans }
      }

      test('returns bans by rule and then client, whatever their ends, in every process', async () => {
        const { store, other, clock } = await opened()
        const at = (rule: string, clientKey: string, minutes: number) => {
          const endsAt = clock.now() + minutes * MINUTE
          return { rule, clientKey, endsAt, lastsMs: HOUR }
        }
        const bans = [at('a', 'x', 3), at('a', 'y', 1), at('b', 'a', 2)]
        for (const ban of bans.toReversed()) await store.save(ban)
        for (const each of [store, other]) {
          expect(await each.list({ limit: 10 })).toEqual({ bans, hasMore: false })
        }
      })

      test('returns pages of at most limit bans, each ban once, and says whether more follow', async () => {
        const names = ['a', 'b', 'c'].flatMap(rule =>
          Array.from({ length: 5 }, (_, index) => [rule, `client ${index}`] as const),
        )
        const { store } = await filled(names.toReversed())
        const { all, pages } = await walk(store, { limit: 4 })
        expect(all).toEqual(names.map(name => name.join(' ')))
        expect(pages.map(page => page.length)).toEqual([4, 4, 4, 3])
        expect((await store.list({ limit: 15 })).hasMore).toBe(false)
        expect((await store.list({ limit: 14 })).hasMore).toBe(true)
      })

      test('goes on after a place where no ban is any more', async () => {
        const { store } = await filled([
          ['a', '1'],
          ['a', '3'],
          ['b', '0'],
        ])
        const after = { rule: 'a', clientKey: '2' }
        expect(namesOf((await store.list({ after, limit: 9 })).bans)).toEqual(['a 3', 'b 0'])
      })

      test('returns only bans of a rule, of some keys, or of both, on each page', async () => {
        const { store } = await filled(
          ['a', 'b', 'c'].flatMap(rule => ['x', 'y', 'z'].map(key => [rule, key] as const)),
        )
        const listed = async (selection: BanSelection) =>
          (await walk(store, { ...selection, limit: 2 })).all
        expect(await listed({ rule: 'b' })).toEqual(['b x', 'b y', 'b z'])
        expect(await listed({ clientKeys: ['y'] })).toEqual(['a y', 'b y', 'c y'])
        expect(await listed({ clientKeys: ['z', 'x', 'other'] })).toEqual([
          'a x',
          'a z',
          'b x',
          'b z',
          'c x',
          'c z',
        ])
        expect(await listed({ rule: 'c', clientKeys: ['z', 'x'] })).toEqual(['c x', 'c z'])
        expect(await listed({ rule: 'd' })).toEqual([])
        expect(await listed({ clientKeys: [] })).toEqual([])
        const after = { rule: 'b', clientKey: 'y' }
        const from = async (rule: string) =>
          namesOf((await store.list({ rule, after, limit: 9 })).bans)
        expect([await from('a'), await from('b'), await from('c')]).toEqual([
          [],
          ['b z'],
          ['c x', 'c y', 'c z'],
        ])
      })

      test('leaves out bans that have ended', async () => {
        const { store, clock } = await filled([
          ['a', '1'],
          ['a', '2'],
        ])
        const late = { rule: 'a', clientKey: '3', endsAt: clock.now() + 2 * HOUR, lastsMs: HOUR }
        await store.save(late)
        clock.advance(HOUR)
        expect(await store.list({ limit: 1 })).toEqual({ bans: [late], hasMore: false })
      })

      test('orders texts as UTF-8, and treats each of them as it was saved', async () => {
        const texts = [
          '',
          '\n',
          '%',
          "'; --",
          'A',
          '\\',
          'a',
          'ab',
          'b',
          'é',
          '\uffee',
          '😀',
          '😀😀',
        ]
        const long = 'x'.repeat(20_000)
        const names = [...texts, long].flatMap(rule => [
          [rule, ''] as const,
          [rule, `${rule}1`] as const,
          [rule, `${rule}2`] as const,
        ])
        const { store } = await filled(names)
        const { all } = await walk(store, { limit: 2 })
        const inOrder = names.toSorted(
          ([rule, key], [otherRule, otherKey]) =>
            Buffer.compare(Buffer.from(rule), Buffer.from(otherRule)) ||
            Buffer.compare(Buffer.from(key), Buffer.from(otherKey)),
        )
        expect(all).toEqual(inOrder.map(name => name.join(' ')))
        for (const rule of [...texts, long]) {
          const found = await store.list({ rule, clientKeys: [`${rule}1`], limit: 9 })
          expect(namesOf(found.bans)).toEqual([`${rule} ${rule}1`])
        }
      })

      test('finds keys with NUL as they were saved', async () => {
        const { store } = await filled([
          ['a', '1\0'],
          ['a', '1\0b'],
          ['a', '2'],
        ])
        expect((await walk(store, { limit: 1 })).all).toEqual(['a 1\0', 'a 1\0b', 'a 2'])
        const { bans } = await store.list({ clientKeys: ['1\0'], limit: 9 })
        expect(namesOf(bans)).toEqual(['a 1\0'])
      })
    })

    test('revision changes when another process saves, changes or lifts bans', async () => {
      const { store, other, clock } = await opened()
      const ban = { rule: 'login', clientKey: ANN, endsAt: clock.now() + HOUR, lastsMs: HOUR }
      const seen = [await store.revision()]
      expect(await store.revision()).toBe(seen[0])
      await other.save(ban)
      seen.push(await store.revision())
      await other.save({ ...ban, clientKey: 'another' })
      seen.push(await store.revision())
      await other.save({ ...ban, endsAt: ban.endsAt + 1 })
      seen.push(await store.revision())
      await other.lift({ clientKeys: ['another'] })
      seen.push(await store.revision())
      expect(new Set(seen).size).toBe(5)
      expect(await store.revision()).toBe(seen.at(-1))
    })

    test('revision changes when another process lifts a ban of this one', async () => {
      const { store, other, clock } = await opened()
      const before = await store.revision()
      await store.save({ rule: 'login', clientKey: ANN, endsAt: clock.now() + HOUR, lastsMs: HOUR })
      await other.lift({})
      expect(await store.revision()).not.toBe(before)
    })

    test('revision stays the same while only this process saves bans', async () => {
      const { store, clock } = await opened()
      const before = await store.revision()
      await store.save({ rule: 'login', clientKey: ANN, endsAt: clock.now() + HOUR, lastsMs: HOUR })
      expect(await store.revision()).toBe(before)
    })
  })
}

async function all(store: BanStore): Promise<Ban[]> {
  const bans: Ban[] = []
  for await (const part of store.load()) bans.push(...part)
  return bans
}

function endOf(ban: Ban | undefined): number {
  return ban?.endsAt ?? 0
}
