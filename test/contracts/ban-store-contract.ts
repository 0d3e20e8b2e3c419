import { describe, expect, test } from 'vitest'
import type { Ban, BanStore } from '../../src/limits/ban-store.ts'
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
