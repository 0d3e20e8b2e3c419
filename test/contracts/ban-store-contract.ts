import { describe, expect, test } from 'vitest'
import type { Ban, BanStore } from '../../src/limits/ban-store.ts'
import { createFakeClock } from '../support/fake-clock.ts'

export interface BanStoreHarness {
  readonly name: string
  /** An empty store, and the same one as another process has it, at the time of `now`. */
  open(now: () => number): Promise<{ readonly store: BanStore; readonly other: BanStore }>
}

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const MANY = 2500

const ANN = '198.51.100.1'

/** What every `BanStore` keeps to. */
export function describeBanStore({ name, open }: BanStoreHarness): void {
  async function opened() {
    const clock = createFakeClock()
    return { clock, ...(await open(clock.now)) }
  }

  describe(`BanStore: ${name}`, () => {
    test('load gives what was saved, the first to end first, in every process', async () => {
      const { store, other, clock } = await opened()
      const first = { rule: 'login', clientKey: ANN, endsAt: clock.now() + MINUTE }
      const second = { rule: 'other', clientKey: ANN, endsAt: clock.now() + HOUR }
      const third = { rule: 'login', clientKey: '["a\\n","é"]', endsAt: clock.now() + 2 * HOUR }
      for (const ban of [third, first, second]) await store.save(ban)
      expect(await all(store)).toEqual([first, second, third])
      expect(await all(other)).toEqual([first, second, third])
    })

    test('load gives many in parts, each once', async () => {
      const { store, clock } = await opened()
      const bans = Array.from({ length: MANY }, (_, index) => ({
        rule: `rule ${index % 3}`,
        clientKey: `client ${index}`,
        // Many that end at once, so that some parts end between two of them.
        endsAt: clock.now() + MINUTE + Math.floor(index / 700),
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

    test('save keeps one ban of a rule and client, the last', async () => {
      const { store, clock } = await opened()
      const ban = { rule: 'login', clientKey: ANN, endsAt: clock.now() + HOUR }
      await store.save(ban)
      await store.save({ ...ban, endsAt: clock.now() + MINUTE })
      expect(await all(store)).toEqual([{ ...ban, endsAt: clock.now() + MINUTE }])
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
    ])('the key %j is kept and lifted as it is', async clientKey => {
      const { store, clock } = await opened()
      const ban = { rule: clientKey, clientKey, endsAt: clock.now() + HOUR }
      const neighbour = { ...ban, clientKey: `${clientKey}x` }
      await store.save(ban)
      await store.save(neighbour)
      expect(await all(store)).toContainEqual(ban)
      expect(await store.lift({ rule: clientKey, clientKeys: [clientKey] })).toEqual([ban])
      expect(await all(store)).toEqual([neighbour])
    })

    test('what has ended is neither loaded nor lifted', async () => {
      const { store, clock } = await opened()
      const ban = { rule: 'login', clientKey: ANN, endsAt: clock.now() + MINUTE }
      await store.save(ban)
      clock.advance(MINUTE - 1)
      expect(await all(store)).toEqual([ban])
      clock.advance(1)
      expect(await all(store)).toEqual([])
      expect(await store.lift({})).toEqual([])
    })

    test('lift takes those of a rule, of any of some keys, of both, or all', async () => {
      const { store, other, clock } = await opened()
      const at = (rule: string, clientKey: string, minutes: number): Ban => ({
        rule,
        clientKey,
        endsAt: clock.now() + minutes * MINUTE,
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

    test('revision is another one once another process has made, changed or lifted bans', async () => {
      const { store, other, clock } = await opened()
      const ban = { rule: 'login', clientKey: ANN, endsAt: clock.now() + HOUR }
      const seen = [store.revision()]
      expect(store.revision()).toBe(seen[0])
      await other.save(ban)
      seen.push(store.revision())
      await other.save({ ...ban, clientKey: 'another' })
      seen.push(store.revision())
      await other.save({ ...ban, endsAt: ban.endsAt + 1 })
      seen.push(store.revision())
      await other.lift({ clientKeys: ['another'] })
      seen.push(store.revision())
      expect(new Set(seen).size).toBe(5)
      expect(store.revision()).toBe(seen.at(-1))
    })

    test('revision is another one once another process has lifted what this one made', async () => {
      const { store, other, clock } = await opened()
      const before = store.revision()
      await store.save({ rule: 'login', clientKey: ANN, endsAt: clock.now() + HOUR })
      await other.lift({})
      expect(store.revision()).not.toBe(before)
    })

    test('revision stays as it is while only this process makes bans', async () => {
      const { store, clock } = await opened()
      const before = store.revision()
      await store.save({ rule: 'login', clientKey: ANN, endsAt: clock.now() + HOUR })
      expect(store.revision()).toBe(before)
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
